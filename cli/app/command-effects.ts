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
 * Commands that change something in a cluster, on this machine or in a workspace, and why each of them takes nothing away that the
 * operator would miss. A command without such a reason belongs in `TAKING_AWAY`.
 */
export const TAKING_NOTHING: Readonly<Record<string, string>> = {
  'config generate': 'creates missing files and overwrites none',
  'config edit': 'asks as `config apply` does, at the terminal that it needs',
  'config passphrase': 'asks for the present passphrase; the keys stay the same',
  init: 'refuses a machine that belongs to a cluster',
  join: 'refuses a machine that belongs to a cluster',
  preflight: '--fix loads modules and sets parameters that are missing',
  'package repo': 'keeps the packages that the repository has',
  'node approve': '`node remove` undoes it',
  'node refuse': 'the machine is no member; `node approve` admits it later',
  'node label': 'pods stay; the same command sets the earlier value again',
  'node cordon': 'pods stay; `node uncordon` undoes it',
  'node uncordon': '`node cordon` undoes it',
  'node readmit': 'lets a removed machine join again; `node refuse` refuses it',
  sign: 'shows the records that it signs, and asks; it changes none of them',
  'audit export': 'the log stays; it replaces only the file that it is told to write',
  'backup create': 'overwrites no file; deletes only above the --keep that it is given',
  'backup verify': 'adds a proof beside the backup',
  'backup fetch': 'the backup stays where it is; overwrites no file',
  'support bundle': 'writes a new file and overwrites none',
  'operator key': 'keeps an existing key',
  'operator accept': 'refuses a grant for another key or another cluster',
  kubeconfig: 'an earlier certificate stays valid; --merge keeps other clusters',
  'context add': 'refuses a name that another workspace has',
  'context use': 'the same command selects the earlier context again',
  'context remove': 'the workspace stays; `context add` names it again',
  'mini up': 'continues or starts a local cluster that exists',
  'mini restore': 'refuses a local cluster that is no drill',
  'mini exec': 'runs only the program in the command line',
  'mini start': '`mini stop` undoes it',
  'bundle build': 'a bundle is made again from the same pinned sources',
  'bundle fetch': 'a file is downloaded again with the same pinned hash',
  'image build': 'an image is made again from its pinned packages',
  'attest collateral refresh': 'refuses collateral that is older than the present one',
  'attest collateral upload': 'refuses collateral that is older than the present one',
};

/**
 * Commands that can take something away: they show it with --dry-run, and ask before they do it. `recover quorum` is confirmed
 * with the name of the cluster.
 */
export const TAKING_AWAY: ReadonlySet<string> = new Set([
  'config apply',
  'node drain',
  'node taint',
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
  'attest approve',
  'node rotate-disk-keys',
  'mini down',
  'mini stop',
]);

/** Commands that make changes. */
export const MAKING_CHANGES: ReadonlySet<string> = new Set(Object.keys(TAKING_NOTHING)).union(TAKING_AWAY);

/** Whether a command ("node ls") makes changes. A command on neither list counts as one that makes changes. */
export function effectOf(command: string): 'reads' | 'changes' {
  return READING.has(command) ? 'reads' : 'changes';
}

/** Whether the command is on exactly one of the three lists above. */
export function isListed(command: string): boolean {
  const lists = [READING.has(command), Object.hasOwn(TAKING_NOTHING, command), TAKING_AWAY.has(command)];
  return lists.filter(Boolean).length === 1;
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
