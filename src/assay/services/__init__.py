"""What Assay does, for every door: a typed request in, a typed result out. Nothing here prints."""
