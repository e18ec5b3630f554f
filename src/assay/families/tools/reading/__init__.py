"""Reading tool schemas without trusting them: modules, data files, snapshots, live servers."""
