/**
 * Commands that only read and print: they end when their output is closed. Every other command makes changes and runs to its
 * end even when nobody reads its output.
 */
const READING: ReadonlySet<string> = new Set([
  'config validate',
  'provisioning generate',
  'provisioning validate',
  'provisioning schema',
  'config schema',
  'config show',
  'status',
  'dashboard',
  'version',
  'doctor',
  'support open',
  'support recipient',
  'node ls',
  'node show',
  'node logs',
  'node metrics',
  'node cloud-init',
  'verify',
  'explain',
  'audit ls',
  'backup show',
  'backup ls',
  'backup schedule show',
  'audit verify',
  'operator ls',
  'keys show',
  'mini ls',
  'mini preflight',
  'bundle verify',
  'bundle ls',
  'bundle outdated',
  'bundle sbom',
  'attest explain',
  'attest measure',
  'attest collateral',
  'attest collateral show',
  'context ls',
  'completion',
  'completion names',
  'help',
]);

/**
 * Commands that change something in a cluster, on this machine or in a workspace, and take nothing away that a command of this
 * list does not give back: `node approve` admits a machine that `node refuse` refused, `context add` names a workspace again.
 */
const CHANGING: ReadonlySet<string> = new Set([
  'config generate',
  'config edit',
  'config passphrase',
  'init',
  'join',
  'preflight',
  'package repo',
  'node approve',
  'node refuse',
  'node label',
  'node taint',
  'node cordon',
  'node uncordon',
  'node readmit',
  'sign',
  'audit export',
  'backup create',
  'backup verify',
  'backup fetch',
  'support bundle',
  'operator key',
  'operator accept',
  'kubeconfig',
  'context add',
  'context use',
  'context remove',
  'mini up',
  'mini restore',
  'mini exec',
  'mini start',
  'bundle build',
  'bundle fetch',
  'image build',
  'attest collateral refresh',
  'attest collateral upload',
]);

/**
 * Commands that can take something away: they show it with --dry-run, and ask before they do it. `recover quorum` is confirmed
 * with the name of the cluster.
 */
export const TAKING_AWAY: ReadonlySet<string> = new Set([
  'config apply',
  'node drain',
  'node set-role',
  'node reboot',
  'node shutdown',
  'node remove',
  'node reset',
  'backup delete',
  'backup schedule set',
  'backup schedule stop',
  'restore',
  'operator add',
  'operator remove',
  'keys rotate',
  'recover quorum',
  'recover space',
  'recover disk',
  'mini down',
  'mini stop',
]);

/** Commands that make changes. */
export const MAKING_CHANGES: ReadonlySet<string> = CHANGING.union(TAKING_AWAY);

/** Whether a command ("node ls") makes changes. A command on neither list counts as one that makes changes. */
export function effectOf(command: string): 'reads' | 'changes' {
  return READING.has(command) ? 'reads' : 'changes';
}

/** Whether the command is on exactly one of the three lists above. */
export function isListed(command: string): boolean {
  return [READING, CHANGING, TAKING_AWAY].filter((list) => list.has(command)).length === 1;
}

/** Commands that use no workspace, or that make the current directory a workspace. They ignore the current context. */
const WITHOUT_CONTEXT =
  /^(completion|help|context|mini|bundle|image|package|restore|config generate|config schema|operator key|operator accept|provisioning (validate|schema))( |$)/;

/**
 * Whether the command always works in the current directory: it ignores the current context, even if the current
 * directory is no workspace.
 */
export function ignoresContext(command: string): boolean {
  return WITHOUT_CONTEXT.test(command) && command !== 'completion names';
}

/** Commands without a list whose result has more rows with `--output wide`. */
const HAVE_WIDE_RESULT = ['status', 'node show', 'node remove', 'node reset'];

/** Commands whose result is a list: `--output wide`, `--output name` and `--no-headers` are for them. */
const LISTING: ReadonlySet<string> = new Set([
  'node ls',
  'operator ls',
  'audit ls',
  'backup ls',
  'mini ls',
  'bundle ls',
  'context ls',
]);

/** Why the flags ask for a form of output that the command does not have; undefined if it has the form. */
export function listFlagMisuse(
  command: string,
  { output, headers }: { readonly output: string; readonly headers: boolean },
): string | undefined {
  if (LISTING.has(command)) return undefined;
  if (output === 'name') return '--output name is only for commands that list objects';
  if (output === 'wide' && !HAVE_WIDE_RESULT.includes(command))
    return '--output wide is only for `status`, `node show`, `node remove`, `node reset` and for commands that list objects';
  return headers ? undefined : '--no-headers is only for commands that list objects';
}
