"""What the fields of tool-schema files mean, where their published JSON Schema doesn't say.

The schemas are those of the FlowMCP specification and stay as they were published, so the meanings
are here. A key means the same in each of the files.
"""

TOOL_FILES = (
    "grade-report",
    "grading-entry",
    "grading-entry-extended",
    "index",
    "index-extended",
    "prompts",
    "scores",
)
FIELDS = {
    "aggregateGrade": (
        "The letter of all answers together; `REJECTED` by a veto, null where there is no full"
        " grading."
    ),
    "maxAttainableGrade": (
        "The best letter that the tier allows: B for an autonomous grading, A with a selection."
    ),
    "categoricalVeto": (
        "Why the subject is rejected whatever its scores: the check, its evidence and who"
        " raised it; null without one."
    ),
    "regradingTrigger": "Why it was graded again, and which entry this one supersedes.",
    "basePersonaId": "The persona that the answers are given for.",
    "lensId": "The point of view within the persona.",
    "score": "The answer: a number from 1 to 5, or `pass`, `fail`, `stale` or `n/a`.",
    "weight": "How much the question counts, relative to the other questions.",
    "determinism": "Whether the same input always gives the same answer.",
    "graderIdentity": "Who answered.",
    "llmModel": "The model that answered, where the grader is one.",
    "selectionContext": "The group and the personas that the answer was given for.",
    "timestamp": "When it happened, in UTC.",
    "evidence": "What the answer rests on: a text, or an object.",
    "reasoning": "Why, in the grader's words.",
    "kind": "Who it is: `llm`, `human` or `script`.",
    "name": "The grader's name, such as a model or a command.",
    "groupId": "The group of users.",
    "personaIds": "The personas of the group.",
    "domainDocId": "The document that describes the group's domain.",
    "triggeredBy": "What caused it.",
    "reportedIssue": "The issue that a user reported.",
    "requestedBy": "Who asked for it.",
    "previousGradingId": "The `gradingId` of the superseded entry.",
    "form": "`extended` marks an entry with keys that the published form lacks.",
    "rawGrade": (
        "The letter before the cap of the tier and before a veto; null where nothing was scored."
    ),
    "normalizedScore": "The weighted mean of the scores, from 1 to 5.",
    "blocked": "Whether the subject couldn't be graded.",
    "blockedReason": "Why not, as a code.",
    "notes": "What else was noticed.",
    "indexVersion": "The version of this form.",
    "namespace": "The namespace that the index is about.",
    "selectionId": "The selection that the index is about.",
    "updatedAt": "When the index was last made.",
    "status": (
        "A node is `pending` until it is graded, `stable` from B, and `blocked` where something"
        " prevents grading. A whole index is `operational` when every node is stable."
    ),
    "grade": "The letter; in an index, that of the newest full grading.",
    "summary": "How many nodes there are, and how many are stable.",
    "about": "The about page.",
    "description": "The description of the namespace.",
    "skills": "The skills, by name.",
    "namespaceAggregate": "The grading of the namespace as a whole.",
    "selectionAggregate": "The grading of the selection as a whole.",
    "schemas": "The schemas of the namespace, by name, each with its tools.",
    "members": "The members of the selection as their own namespaces have them now.",
    "lockSnapshot": "The members of the selection as they were when it was locked.",
    "blockers": "Nodes that can't be graded, and why.",
    "ref": "The file of the entry, from the folder of the index.",
    "boundTo": "The hash of the schema that was graded.",
    "snapshot": "The file of the newest version, and its hash.",
    "schemaId": "The subject, as `namespace/schema`.",
    "schemaIdSlug": "`schemaId` as the name of a folder.",
    "schemaPath": "The file that was read.",
    "schemaHash": "The SHA-256 of the file's bytes.",
    "canonicalHash8": (
        "The first eight hex digits of the digest of its canonical form; null where it has none."
    ),
    "date": "The day of the report, in UTC.",
    "scoringProtocol": "The version of the protocol between the two stages.",
    "scoringInstructions": "The instructions that a grader reads before the prompts.",
    "prompts": "One prompt for each dimension.",
    "scores": "One score for each dimension, with the reason.",
    "creator": "Who scored: the kind, name and version.",
    "harness": "The program that asked the grader.",
    "timestamps": "When each stage happened.",
    "startedAt": "When the prompts were written; null where that isn't known.",
    "scoredAt": "When the grader answered.",
    "gradedAt": "When the scores became a letter.",
    "reportedAt": "When the report was written.",
    "dimensions": "Each dimension with its score and the reason.",
    "validationPassed": "Whether the schema has no error; without that the grade is an F.",
    "validationErrors": "Its errors, as sentences.",
    "reason": "Why, in a sentence or as a code.",
    "gradingTier": "Whether it was graded by itself (`autonomous`) or for a group of users.",
    "checks": "The checks for a veto, and what each found.",
    "findings": "Warnings and notes of the validation.",
    "policy": "The policy, as name@version.",
    "scoringSystem": "The version of the scoring system.",
    "gradingSystem": "The version of the grading system.",
    "id": "The check.",
    "outcome": (
        "What the check found. Only `veto` rejects; `undetermined` keeps the production gate"
        " closed."
    ),
    "rule": "The id of the rule.",
    "level": "How severe it is.",
    "path": "The place within the schema.",
    "message": "What is wrong.",
    "fix": "What to do.",
    "line": "The line of the file; null where it isn't known.",
    "version": "The grader's version.",
}
REPORT = {
    **FIELDS,
    "score": "The mean of the scores that apply, from 1 to 5.",
    "grade": "The letter of the score, capped by the tier; F without a clean validation.",
    "evidence": "What the check looked at.",
    "reason": "Why, in a sentence.",
}
"""The same for a report, where some keys are about the whole schema."""
