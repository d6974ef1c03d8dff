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

/** Commands that change something in a cluster, on this machine or in a workspace. */
export const CHANGING: ReadonlySet<string> = new Set([
  'config generate',
  'config apply',
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
  'node drain',
  'node set-role',
  'node reboot',
  'node shutdown',
  'node remove',
  'node reset',
  'node readmit',
  'sign',
  'audit export',
  'backup create',
  'backup verify',
  'backup delete',
  'backup fetch',
  'backup schedule set',
  'backup schedule stop',
  'restore',
  'support bundle',
  'operator add',
  'operator remove',
  'operator key',
  'operator accept',
  'keys rotate',
  'kubeconfig',
  'context add',
  'context use',
  'context remove',
  'recover quorum',
  'recover space',
  'recover disk',
  'mini up',
  'mini down',
  'mini restore',
  'mini exec',
  'mini start',
  'mini stop',
  'bundle build',
  'bundle fetch',
  'image build',
  'attest collateral refresh',
  'attest collateral upload',
]);

/** Whether a command ("node ls") makes changes. A command on neither list counts as one that makes changes. */
export function effectOf(command: string): 'reads' | 'changes' {
  return READING.has(command) ? 'reads' : 'changes';
}

/** Whether the command is on exactly one of the two lists above. */
export function isListed(command: string): boolean {
  return READING.has(command) !== CHANGING.has(command);
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
  if (output === 'wide' && command !== 'status')
    return '--output wide is only for `status` and for commands that list objects';
  return headers ? undefined : '--no-headers is only for commands that list objects';
}
