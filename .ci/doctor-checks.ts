/**
 * Writes docs/doctor.md: every check of `cluster doctor`, its threshold and its fix, from the list of checks. `node
 * .ci/doctor-checks.ts` writes the page; with `--check` it fails when the page is stale.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  diagnose,
  DOCTOR_CHECKS,
  GATE_RULES,
  LAYERS,
  NOT_CHECKED,
  type GatedAction,
  type GateRule,
} from '../internal/doctor/index.ts';
import { factsOfMachine, fakeFacts } from '../internal/doctor/fake-facts.ts';
import { escapeCell, publishPage } from './page.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGE = 'docs/doctor.md';
const INTRODUCTION = `# cluster doctor

<!-- written by \`node .ci/doctor-checks.ts\`, from internal/doctor -->

\`cluster doctor [NODE…]\` collects facts from curators, API servers, kubelets and the workspace, and judges them with the checks
below. It changes nothing in the cluster. Every check prints its figure and its threshold, also when it is good. A fact that could not be read is
\`unknown\`, never \`good\`; without curators or without the Kubernetes API, what is left is judged.

| exit code | meaning |
|---|---|
| 0 | every finding is \`good\` |
| 11 | the worst finding is a \`warning\`, or something is \`unknown\` |
| 10 | there is an \`error\` |

Problems are printed likely causes first: errors, warnings, unknowns, and last the problems that probably follow from an error. An
error explains problems of later checks on the same node, or where one of the two is about the whole cluster. \`-o json\` has them in this order in \`problems\`, and all findings in \`findings\`. The round trips between
nodes are in \`roundTrips\`: the median from each node to up to eight others, in ms (5: at most 5 ms).

\`--save-facts FILE\` writes the facts as one JSON document without secrets (names, addresses, versions and error messages of the cluster are in it).
\`--facts FILE\` judges such a file anywhere, with the same checks, without a cluster.

\`--watch\` checks every half minute until it is interrupted. At a terminal it shows the problems of the moment; in a pipe, and with \`-o json\`, there is a
result whenever a problem appears or ends (\`appeared\`, \`ended\`).

\`--at +400d\` names instead what ends within that time if nobody does anything, in order, and what prevents it: certificates and CAs of nodes, owner
documents, collateral with its revocation lists, the schedule of backups, the credentials of the workspace, the support of the version of Kubernetes,
and the space of disks and etcd databases. Each row has the time of the end, and what prevents it (PREVENTED BY). The time of a disk or a
database is the one at which the check below reports it. The checks of certificates and documents warn earlier. The exit code is 11 when something needs a person,
or is not known. The growth in the first day of a node is not known either, and does not count.

Each agent measures its disks and etcd databases every hour and remembers two weeks, also over restarts. The growth is the median of the slopes
between all measurements, so a file that comes and goes does not change it. It is stated after a day with at least 12 measurements, and only where it
is clearly larger than the usual variation; otherwise nothing is forecast, and the report says why. The measurements begin again after the size of the
disk has changed, or more than 5% of it was freed. A clock that is set does not change them.

The same checks are [gates](#gates) of commands.

[Prometheus alerts](monitoring.md) with the same thresholds are in the chart \`monitoring\`.
`;

const GATES = `## Gates

These commands ask the control planes that respond, and refuse with \`doctor-change-unsafe\`, the cause and the fix of the check that found a problem. A fact
that cannot be read in 10 s refuses nothing. \`--skip-checks\` skips the gate, for a change that is a part of the cure.

A restart or removal is also refused while a voter is down and etcd would have no quorum without the node (\`doctor-etcd-quorum\`). The node with the damaged
member may be taken out, and problems of disks do not delay the removal of a node that does not respond. Of \`doctor-machine\`, only a read-only file
system counts, and of full disks only those with less than 5 GiB free. \`backup create\` refuses with \`doctor-backup-damaged\`, and lets another control plane take the backup while the disk or the
etcd members of one have a problem. \`recover quorum\` judges its own machine, and refuses wrong data with \`recover-damaged\`. \`init\` and every join run the
checks of \`cluster preflight\` on the machine.
`;

const COMMANDS: Readonly<Record<GatedAction, string>> = {
  'member-joins': '`node approve` and `node set-role` of a further control plane',
  'member-leaves': '`node remove`, `node reset` and `node set-role` of a control plane',
  'member-restarts': '`node reboot` of a control plane',
  'all-members-restart': '`keys rotate`',
  backup: '`backup create`',
  recovery: '`recover quorum`',
};
const ABOUT: Readonly<Record<GateRule['about'], string>> = {
  own: 'this node',
  others: 'the other control planes',
  all: 'all control planes',
};

function gateRows(): readonly (readonly string[])[] {
  return Object.entries(GATE_RULES).flatMap(([action, rules]) =>
    rules.map(({ code, from, about }) => [
      COMMANDS[action as GatedAction],
      `\`${code}\``,
      from === 'error' ? 'an error' : 'a warning or an error',
      ABOUT[about],
    ]),
  );
}

/** The page: one table for each layer, in the order of the checks. */
export function renderPage(): string {
  const findings = [...diagnose(fakeFacts()), ...diagnose(factsOfMachine())];
  const thresholdsOf = (code: string): string =>
    [...new Set(findings.filter((each) => each.code === code).map(({ threshold }) => threshold))].join('; ');
  const row = (cells: readonly string[]): string => `| ${cells.map(escapeCell).join(' | ')} |`;
  const tables = LAYERS.flatMap((layer) => [
    `## ${layer[0]?.toUpperCase()}${layer.slice(1)}`,
    '',
    ...['| code | what | threshold | fix |', '|---|---|---|---|'],
    ...DOCTOR_CHECKS.filter((check) => check.layer === layer).map(({ code, what, fix }) =>
      row([`\`${code}\``, what, thresholdsOf(code), fix]),
    ),
    '',
  ]);
  const gaps = NOT_CHECKED.map(
    ({ layer, what, why }) => `- ${layer}: ${what}. ${why[0]?.toUpperCase()}${why.slice(1)}.`,
  );
  const gates = [
    GATES,
    '| command | check | refused by | about |',
    '|---|---|---|---|',
    ...gateRows().map(row),
    '',
  ];
  return `${[INTRODUCTION, ...tables, ...gates, '## Not checked yet', '', ...gaps].join('\n')}\n`;
}

if (import.meta.main)
  publishPage({
    root: ROOT,
    path: PAGE,
    page: renderPage(),
    problems: [],
    command: 'node .ci/doctor-checks.ts',
  });
