#!/bin/sh
# Installs Assay and runs its gate in a CI job: `assay-ci.sh install`, then `assay-ci.sh run`, then perhaps `assay-ci.sh comment`.
#
# Everything comes in through the environment and is passed on as arguments; nothing is ever evaluated. The exit code of `run` is Assay's own;
# `comment` only shows what `run` found, and never fails or passes a build.
#
#   ASSAY_CI_FILE      files to judge, one on each line
#   ASSAY_CI_BASELINE  results of the version in production; given, `assay gate` decides, else `assay grade`
#   ASSAY_CI_PROFILE   profile, by name or file (grade only)
#   ASSAY_CI_POLICY    policy, by name or file: the release policy of `assay gate`, the policy of `assay grade`
#   ASSAY_CI_ARGS      further arguments, separated by blanks; quotes mean nothing here
#   ASSAY_CI_COMMENT   name of the comment on the pull request that shows the result; empty: no comment
#   ASSAY_CI_PULL      number of the pull request; `comment` writes there, with `gh` and the token in GH_TOKEN
#   ASSAY_CI_COMMIT    the commit that the comment names
#   ASSAY_CI_PACKAGE   what pip installs: a version, a path or a URL (default: the folder above this script)

set -euf

# A file of the checked-out change must not pass for a module of Python or of Assay.
PYTHONSAFEPATH=1
export PYTHONSAFEPATH

newline='
'

if command -v python3 >/dev/null 2>&1; then
    python=python3
else
    python=python
fi

install() {
    package=${ASSAY_CI_PACKAGE:-}
    if [ -z "$package" ]; then
        package=$(cd "$(dirname "$0")/.." && pwd)
    fi
    "$python" -m pip install --quiet --disable-pip-version-check -- "$package"
}

# The word for an exit code; a decision knows its own better.
outcome_of() {
    case $1 in
        0) echo passed ;;
        1) echo failed ;;
        2) echo misuse ;;
        3) echo malformed ;;
        4) echo not_enough_evidence ;;
        *) echo fault ;;
    esac
}

# What the comment will say: the report in the file $2, or, where there is none, the outcome. Each run replaces what an earlier one left, so that
# no comment shows an older verdict.
note() {
    if [ -z "${ASSAY_CI_COMMENT:-}" ] || [ -z "${RUNNER_TEMP:-}" ]; then
        return
    fi
    if [ -s "${2:-}" ]; then
        cat "$2" >"$RUNNER_TEMP/assay-comment.md"
    else
        printf '## Assay: %s\n\nThere is no report. The log of the job says why.\n' "$1" >"$RUNNER_TEMP/assay-comment.md"
    fi
}

# A comment decides nothing, so the gate goes on without its text; an older text must not stand for this run.
unnoted() {
    rm -f "$RUNNER_TEMP/assay-comment.md" || true
    echo "assay-ci: the text of the comment can't be written to $RUNNER_TEMP." >&2
}

finish() {
    if [ -n "${GITHUB_OUTPUT:-}" ]; then
        printf 'outcome=%s\nexit-code=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"
    fi
    printf 'assay: %s (exit %s)\n' "$1" "$2"
    exit "$2"
}

run_grade() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    code=0
    "$python" -m assay grade -o "$work/grades.md" "$@" || code=$?
    if [ "$code" -eq 0 ] && [ ! -s "$work/grades.md" ]; then
        # an exit code of 0 without a grade, as with --help, opens nothing
        code=5
    fi
    outcome=$(outcome_of "$code")
    note "$outcome" "$work/grades.md" || unnoted
    finish "$outcome" "$code"
}

run_gate() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    code=0
    "$python" -m assay gate --json -o "$work/decision.md" "$@" >"$work/decision.json" || code=$?
    outcome=$(outcome_of "$code")
    if [ -s "$work/decision.json" ]; then
        # shellcheck disable=SC2016
        decided=$("$python" -c '
import json, sys
with open(sys.argv[1], encoding="utf-8") as stream:
    document = json.load(stream)
known = {0: ("promote",), 1: ("hold", "reject"), 4: ("not_enough_evidence",)}
print(document["outcome"] if document["outcome"] in known.get(int(sys.argv[2]), ()) else "")
' "$work/decision.json" "$code") || decided=
        if [ -s "$work/decision.md" ]; then
            cat "$work/decision.md"
            if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
                cat "$work/decision.md" >>"$GITHUB_STEP_SUMMARY"
            fi
        fi
        if [ -n "$decided" ]; then
            outcome=$decided
        elif [ "$code" -eq 0 ]; then
            # an exit code of 0 without a decision to promote opens nothing
            outcome=fault code=5
        fi
    elif [ "$code" -eq 0 ]; then
        outcome=fault code=5
    fi
    if [ -n "${decided:-}" ]; then
        note "$outcome" "$work/decision.md" || unnoted
    else
        note "$outcome" || unnoted
    fi
    finish "$outcome" "$code"
}

run() {
    if [ -z "${ASSAY_CI_FILE:-}" ]; then
        echo "assay-ci: no file is given; name the results to judge with the input 'file'." >&2
        note misuse || unnoted
        finish misuse 2
    fi
    set --
    if [ -n "${ASSAY_CI_POLICY:-}" ] && [ -n "${ASSAY_CI_BASELINE:-}" ]; then
        set -- "$@" "--release-policy=$ASSAY_CI_POLICY"
    elif [ -n "${ASSAY_CI_POLICY:-}" ]; then
        set -- "$@" "--policy=$ASSAY_CI_POLICY"
    fi
    if [ -n "${ASSAY_CI_PROFILE:-}" ]; then
        set -- "$@" "--profile=$ASSAY_CI_PROFILE"
    fi
    if [ -n "${ASSAY_CI_BASELINE:-}" ]; then
        set -- "$@" "--baseline=$ASSAY_CI_BASELINE"
    elif [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
        set -- "$@" --step-summary
    fi
    # shellcheck disable=SC2086  # the arguments are split at blanks, and globbing is off
    set -- "$@" ${ASSAY_CI_ARGS:-}
    # behind `--` a name that begins with a dash is a file
    IFS=$newline
    # shellcheck disable=SC2086  # the files are split at line ends
    set -- "$@" -- $ASSAY_CI_FILE
    unset IFS
    if [ -n "${ASSAY_CI_BASELINE:-}" ]; then
        run_gate "$@"
    fi
    run_grade "$@"
}

# Posts the text in the file $1, or updates the comment that shows an earlier one. It is ours if it begins with our marker and the account of the
# token wrote it: the author of any other comment could change the verdict that we write into it.
post() {
    body=$RUNNER_TEMP/assay-body.md
    server=${GITHUB_SERVER_URL:-https://github.com}
    repository=${GITHUB_REPOSITORY:-}
    GH_HOST=${server#*://}
    export GH_HOST
    (
        unset GH_TOKEN GH_ENTERPRISE_TOKEN
        "$python" -m assay report comment "--key=$ASSAY_CI_COMMENT" "--commit=${ASSAY_CI_COMMIT:-}" -o "$body" -- "$1"
    ) || return
    ASSAY_CI_MARKER=$(head -n 1 "$body") || return
    export ASSAY_CI_MARKER
    # shellcheck disable=SC2016  # gh replaces $ENV
    id=$(gh pr view "$ASSAY_CI_PULL" --repo "$repository" --json comments --jq \
        '[.comments[] | select(.viewerDidAuthor and (.body | startswith($ENV.ASSAY_CI_MARKER)))] | last | .url // "" | sub(".*-"; "")') || return
    if [ -n "$id" ]; then
        gh api --method PATCH "repos/$repository/issues/comments/$id" --field "body=@$body" --jq .html_url
    else
        gh pr comment "$ASSAY_CI_PULL" --repo "$repository" --body-file "$body"
    fi
}

comment() {
    if [ -z "${ASSAY_CI_PULL:-}" ]; then
        echo "assay: no pull request started this job, so there is no comment."
        return
    fi
    text=${RUNNER_TEMP:?}/assay-comment.md
    if [ ! -s "$text" ]; then
        note "no result"
    fi
    if ! post "$text"; then
        echo "::warning title=Assay::The comment on the pull request was not written; the log of this step says why. The gate is not affected."
    fi
}

case ${1:-} in
    install) install ;;
    run) run ;;
    comment) comment ;;
    *)
        echo "usage: assay-ci.sh install|run|comment" >&2
        exit 2
        ;;
esac
