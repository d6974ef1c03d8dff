import { CloudInitError } from './errors.ts';

/** Where a machine gets the agent's package, and what it must be. */
export interface AgentPackage {
  /** `https:`, `http:`, or `file:` for one that lies in the machine's image. */
  readonly url: string;
  /** Lower-case hex; undefined: whoever serves the URL decides what is installed. */
  readonly sha256: string | undefined;
}

/** apt's own: there on every Debian, where curl and wget are not. It verifies the hash before the file has its name. */
const APT_HELPER = '/usr/lib/apt/apt-helper';
const DOWNLOADED = '/var/tmp/cluster-agent.deb';

/**
 * The flags --package and --package-sha256. A path of the workstation means nothing to a machine, and plain HTTP lets
 * everybody on the way choose the package unless its hash is known.
 * @throws AdminError
 */
export function parseAgentPackage(
  text: string | undefined,
  sha256: string | undefined,
): AgentPackage | undefined {
  if (text === undefined) {
    if (sha256 === undefined) return undefined;
    throw new CloudInitError('cloudinit-package-invalid', 'reading --package-sha256: there is no --package');
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['https:', 'http:', 'file:'].includes(url.protocol))
    throw new CloudInitError('cloudinit-package-path', `reading --package ${JSON.stringify(text)}`);
  if (url.protocol === 'file:' && (url.host !== '' || !/^\/[\w.+~/-]+$/.test(url.pathname)))
    throw new CloudInitError(
      'cloudinit-package-invalid',
      `reading --package ${text}: file:///PATH is needed`,
    );
  if (sha256 !== undefined && !/^[0-9a-fA-F]{64}$/.test(sha256))
    throw new CloudInitError(
      'cloudinit-package-invalid',
      `reading --package-sha256 ${sha256}: 64 hex digits`,
    );
  if (url.protocol === 'http:' && sha256 === undefined)
    throw new CloudInitError('cloudinit-package-unverified', `reading --package ${text}`);
  return { url: url.href, sha256: sha256?.toLowerCase() };
}

/**
 * The command that installs the package with all it depends on, then starts the agent. One script that stops at the first
 * failure: cloud-init goes on after a command that failed. Values are arguments of it, never part of its text.
 */
export function installCommand(agentPackage: AgentPackage | undefined): readonly string[] {
  const start = 'systemctl restart bootstrapper.service';
  if (agentPackage === undefined) return ['systemctl', 'restart', 'bootstrapper.service'];
  const { url, sha256 } = agentPackage;
  const lines = ['export DEBIAN_FRONTEND=noninteractive', ...placeLines(agentPackage), ...INSTALL, start];
  return ['sh', '-euc', `${lines.join('\n')}\n`, 'cluster-agent', url, sha256 ?? ''];
}

/** Without the network first: an image may have everything already. */
const INSTALL = [
  'install() { apt-get install --yes --no-install-recommends "$@"; }',
  'install "$deb" || { apt-get update; install "$deb"; }',
];

/** `$1` is the URL, `$2` the hash or empty; afterwards `$deb` is the package, verified. */
function placeLines({ url }: AgentPackage): readonly string[] {
  if (url.startsWith('file:'))
    return ['deb="${1#file://}"', '[ -z "$2" ] || echo "$2  $deb" | sha256sum --check --quiet'];
  const authorities = [
    '[ -e /etc/ssl/certs/ca-certificates.crt ] ||',
    '  { apt-get update; apt-get install --yes ca-certificates; }',
  ];
  return [
    ...(url.startsWith('https:') ? authorities : []),
    `deb=${DOWNLOADED}`,
    'rm -f "$deb"',
    `${APT_HELPER} download-file "$1" "$deb" \${2:+"SHA256:$2"}`,
  ];
}
