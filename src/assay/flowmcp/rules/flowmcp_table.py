"""The rules of a FlowMCP 4 schema as data. An error is what a tool cannot be called without; the rest of the specification warns.

The specification numbers its rules and grades some of them harder than here: a schema of 4.0.0 need not know what 4.3.0 added.
"""

from __future__ import annotations

from assay.flowmcp.rules.rule import Rule, table

MIME_TYPES = ("application/json", "image/png", "text/plain")
METHODS = ("GET", "POST", "PUT", "DELETE")
LOCATIONS = ("insert", "query", "body")
MAX_TOOLS = 8
MIN_TESTS = 3
MAX_DEPTH = 4
"""How deep the schema of an answer may nest."""
MAX_RESOURCES = 2

_E, _W, _N = "error", "warning", "note"

RULES: dict[str, Rule] = table(
    [
        # the exported object
        Rule("not-data", _E, "The exported object holds data and nothing else.", "Move code into `handlers`: JSON must say all of `main`.", "SEC017"),
        Rule("module-imported", _E, "The file asks for no module.", "Name it in `requiredLibraries`; handlers get it from `libraries`."),
        Rule("namespace-missing", _E, "`namespace` is a text.", "Add the provider's name, as `namespace: 'coingecko'`.", "VAL010"),
        Rule("namespace-pattern", _E, "`namespace` matches ^[a-z][a-z0-9-]*$.", "Use lower-case letters, digits and hyphens, a letter first.", "VAL011"),
        Rule("namespace-folder", _W, "The folder under `providers/` is named like the namespace.", "Rename the folder, or the namespace.", "VAL019"),
        Rule("name-missing", _E, "`name` is a text.", "Give the schema a name.", "VAL012"),
        Rule("description-missing", _E, "`description` is a text.", "Say in one or two sentences what the schema offers.", "VAL013"),
        Rule("version-missing", _E, "`version` is a text.", "Name the version of the FlowMCP specification, as `version: '4.0.0'`.", "VAL014"),
        Rule("version-pattern", _E, "`version` matches ^4\\.\\d+\\.\\d+$.", "Name a version of the FlowMCP specification 4, as '4.0.0'.", "VAL014"),
        Rule("version-superseded", _W, "`version` is 4: a schema of 3 is only read while it moves.", "Bring the schema to 4 and write '4.0.0'.", "VAL014"),
        Rule("root-missing", _E, "`root` is a text where a tool has to call an address.", "Add the base address, as 'https://api.example.com'.", "VAL015"),
        Rule("root-empty", _W, "`root` is not empty.", "Name the provider's address, also where handlers make every call.", "VAL015"),
        Rule("root-pattern", _E, "`root` begins with https:// and does not end with a slash.", "Write it as `https://host/path`, without a slash at the end."),
        Rule("tools-missing", _E, "`tools` is an object with at least one tool, or the schema has resources.", "Add `tools: { getThing: { … } }`.", "VAL016"),
        Rule("tools-and-routes", _E, "A schema has `tools` or `routes`, never both.", "Move everything to `tools` and drop `routes`.", "VAL017"),
        Rule("routes-deprecated", _W, "Tools stand in `tools`, not in `routes`.", "Rename `routes` to `tools`.", "VAL018"),
        Rule("skills-in-schema", _E, "`skills` does not stand in a schema of 4.", "Move skills to the namespace, a selection or an agent.", "VAL016"),
        Rule("field-unknown", _W, "`main` holds only fields that the specification names.", "Correct the name, or drop the field.", "VAL003"),
        Rule("field-type", _E, "An optional field of `main` is of its type.", "Give it the type that the specification names."),
        Rule("docs-missing", _W, "`docs` names the provider's documentation (asked for since 4.3.0).", "Add at least one address to `docs`.", "VAL027"),
        Rule("terms-missing", _W, "`termsOfService` is an address, or 'no-tos-found' (asked for since 4.3.0).", "Add it, or 'no-tos-found'.", "VAL028"),
        Rule("source-neutral", _W, "A source carries neither hashes nor content versions.", "Drop the field: it is computed and kept beside the source."),
        Rule("secret-in-source", _E, "No secret stands in the file.", "Take it out, have it revoked, and name it in `requiredServerParams` instead."),
        Rule("list-ref-missing", _E, "An entry of `sharedLists` has a `ref`.", "Name the list, as `ref: 'evmChains'`.", "VAL070"),
        Rule("list-version-missing", _E, "An entry of `sharedLists` has a version of three numbers.", "Name the list's version, as '1.0.0'.", "VAL071"),
        Rule(
            "server-param-undeclared", _E, "Every {{KEY}} of an address, header or value is filled.", "Name it in `requiredServerParams`, or make it an insert."
        ),
        Rule("server-param-unused", _N, "Every name in `requiredServerParams` is used.", "Drop it: users would have to find a key that nothing needs."),
        # tools
        Rule("tool-limit", _E, f"A schema has at most {MAX_TOOLS} tools.", "Split the schema by subject.", "VAL031"),
        Rule("tool-name-pattern", _E, "A tool's name matches ^[a-z][a-zA-Z0-9]*$.", "Write it in camel case, as getPrice.", "VAL030"),
        Rule("tool-type", _E, "A tool is an object.", "Give it method, path, description and parameters."),
        Rule("method-unknown", _E, f"A tool's method is one of {', '.join(METHODS)}.", "Add the method, in capitals.", "VAL032"),
        Rule("path-missing", _E, "A tool's path is a text.", "Add the path that follows `root`; '/' if there is none.", "VAL033"),
        Rule("path-start", _W, "A tool's path begins with a slash.", "Put a slash in front.", "VAL033"),
        Rule("tool-description-missing", _E, "A tool's description is a text.", "Say what the tool returns and for what input.", "VAL034"),
        Rule("parameters-missing", _E, "A tool's parameters are a list.", "Add `parameters: []` if the tool takes none.", "VAL035"),
        Rule("output-missing", _W, "A tool says what it returns.", "Add `output` with a mimeType and a schema.", "VAL036"),
        Rule("handler-unknown", _W, "A handler belongs to a tool of the schema.", "Name it like its tool, or drop it.", "VAL005"),
        Rule("meta-missing", _W, "A tool has a `meta` block (asked for since 4.1.0).", "Add `meta`; the further meta rules name its fields.", "VAL100"),
        Rule("meta-read-only", _W, "`meta.isReadOnly` is true or false.", "Say whether the tool only reads.", "VAL101"),
        Rule("meta-concurrency", _W, "`meta.isConcurrencySafe` is true or false.", "Say whether two calls may run at once.", "VAL102"),
        Rule("meta-destructive", _W, "`meta.isDestructive` is true or false.", "Say whether the tool destroys something.", "VAL103"),
        Rule("meta-search-hint", _W, "`meta.searchHint` is a text.", "Add a few words by which the tool is found.", "VAL104"),
        Rule("meta-aliases", _W, "`meta.aliases` is a list of texts.", "Add other names, or [].", "VAL105"),
        Rule("meta-always-load", _W, "`meta.alwaysLoad` is true or false.", "Say whether the tool is always offered.", "VAL106"),
        # parameters
        Rule("position-missing", _E, "A parameter has a `position`.", "Add `position` with key, value and location.", "VAL040"),
        Rule("z-missing", _E, "A parameter has a `z`.", "Add `z` with a primitive and options.", "VAL040"),
        Rule("key-missing", _E, "`position.key` is a text.", "Name the parameter.", "VAL041"),
        Rule("value-missing", _E, "`position.value` is a text.", "Write '{{USER_PARAM}}' for what the caller gives, or the fixed text.", "VAL042"),
        Rule("location-unknown", _E, f"`position.location` is one of {', '.join(LOCATIONS)}.", "Say where the value goes.", "VAL043"),
        Rule("primitive-missing", _E, "`z.primitive` is a text.", "Name the type, as 'string()'.", "VAL044"),
        Rule(
            "primitive-unknown",
            _W,
            "`z.primitive` is a type of the specification.",
            "Use string(), number(), boolean(), array(), object() or enum(…).",
            "VAL044",
        ),
        Rule("options-type", _E, "`z.options` is a list of texts.", "Write the options as texts, as ['min(1)', 'optional()'].", "VAL045"),
        Rule("option-unknown", _W, "An option is min, max, length, optional or default.", "Use an option of the specification: another one is passed over."),
        Rule("enum-empty", _E, "An enum names its values.", "List them in the brackets, as enum(a,b).", "VAL046"),
        Rule("list-outside-enum", _E, "{{list:field}} stands only inside enum(…).", "Write enum({{list:field}}).", "VAL047"),
        Rule("list-undeclared", _E, "A shared list that an enum names stands in `sharedLists`.", "Add it to `sharedLists` with its version.", "VAL048"),
        Rule("insert-without-placeholder", _E, "An `insert` parameter has its {{key}} in the path.", "Put {{key}} into the path, or send a query.", "VAL050"),
        Rule("placeholder-without-insert", _E, "A placeholder in a path has its `insert` parameter.", "Add the parameter, or drop the placeholder."),
        Rule("placeholder-form", _N, "A placeholder in a path is written {{key}}.", "Write {{key}} instead of :key; runtimes still fill the old form."),
        Rule("body-without-body", _E, "Only POST and PUT carry `body` parameters.", "Use POST or PUT, or send the value as a query."),
        Rule("parameter-left-to-handler", _W, "The request itself carries every parameter.", "Make sure that the handler reads it."),
        Rule("parameter-twice", _E, "A parameter's key stands once in a tool.", "Rename one of them: a caller can give only one value."),
        Rule("query-key-twice", _W, "A fixed query key stands once in a tool.", "Join them: not every runtime sends both."),
        # answers
        Rule("output-type", _E, "`output` is an object.", "Give it a mimeType and a schema, or drop it."),
        Rule("mime-type-unknown", _E, f"`output.mimeType` is one of {', '.join(MIME_TYPES)}.", "Name the kind of answer that the handler hands on.", "VAL060"),
        Rule("output-schema-missing", _E, "`output.schema` is an object with a known type.", "Describe the answer, as { type: 'object' }.", "VAL061"),
        Rule("output-type-mismatch", _E, "The type of the answer fits its mimeType.", "Use object or array for JSON, string for text and base64.", "VAL062"),
        Rule("output-depth", _W, f"The schema of an answer nests at most {MAX_DEPTH} levels.", "Describe the deeper levels in words.", "VAL063"),
        Rule("properties-misplaced", _E, "`properties` stands only in an object.", "Set the type to object, or drop `properties`.", "VAL064"),
        Rule("items-misplaced", _E, "`items` stands only in an array.", "Set the type to array, or drop `items`.", "VAL065"),
        # tests
        Rule("tests-few", _W, f"A tool has at least {MIN_TESTS} tests; fewer block full grading.", "Add tests that show different uses.", "TST001"),
        Rule("test-type", _W, "A test is an object.", "Write the values by parameter, with a _description."),
        Rule("test-description-missing", _W, "A test has a _description.", "Say what this case shows.", "TST002"),
        Rule("test-value-missing", _W, "A test gives every required parameter.", "Add the value, or make the parameter optional().", "TST003"),
        Rule("test-value-refused", _W, "A test's value is one that its parameter takes.", "Correct the value, or the parameter.", "TST004"),
        Rule("test-key-unknown", _W, "A test gives only parameters of its tool.", "Use the parameter's key, or drop the value.", "TST006"),
        Rule("test-repeated", _N, "No two tests of a tool give the same values.", "Let each test show something else."),
        # resources
        Rule("resources-type", _E, "`resources` is an object of objects.", "Name each resource and describe it."),
        Rule("resource-limit", _W, f"A schema has at most {MAX_RESOURCES} resources.", "Split the schema.", "RES005"),
        Rule("resource-description-missing", _W, "A resource has a description.", "Say what it offers.", "RES002"),
        Rule("about-form", _W, "The resource `about` is markdown and stands inline.", "Set source 'markdown' and origin 'inline'."),
    ]
)
"""Every rule of a FlowMCP schema by its id."""
