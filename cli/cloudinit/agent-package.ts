import { STATE_DISK_PROGRAMS } from '../../internal/preflight/index.ts';
import type { CommandContext } from '../app/command.ts';
import { CloudInitError } from './errors.ts';

/** The agent package that a machine installs. */
export interface AgentPackage {
  /** `https:`, or `file:` for a package in the machine's image. */
  readonly url: string;
  /** Lower-case hex; always present for a download. Undefined only for `file:`: the image has been trusted already. */
  readonly sha256: string | undefined;
}

/** Part of apt, so on every Debian, unlike curl and wget. It verifies the hash before it renames the file into place. */
const APT_HELPER = '/usr/lib/apt/apt-helper';
const DOWNLOADED = '/var/tmp/cluster-agent.deb';

/** Flags of a command that prints user data. */
export interface PackageOptions {
  /** URL of the agent package, for images without it. */
  readonly package?: string | undefined;
  readonly packageSha256?: string | undefined;
  readonly format: 'cloud-init' | 'provisioning';
}

/**
 * The package of the flags; undefined without one. Warns of a package that the machine installs whatever its content.
 * @throws CloudInitError also for a package beside a format that installs nothing
 */
export function readAgentPackage(
  { host }: CommandContext,
  options: PackageOptions,
): AgentPackage | undefined {
  const agentPackage = parseAgentPackage(options.package, options.packageSha256);
  if (agentPackage === undefined) return undefined;
  if (options.format === 'provisioning')
    throw new CloudInitError(
      'cloudinit-package-invalid',
      '--package needs --format cloud-init: a provisioning file installs nothing',
    );
  if (agentPackage.sha256 === undefined)
    host.warn(
      'cloud-init-package-unverified',
      'The machine installs any package that its image has at this path. Pin it with --package-sha256.',
    );
  return agentPackage;
}

/** Parses the flags --package and --package-sha256; undefined without a package. @throws CloudInitError */
export function parseAgentPackage(
  text: string | undefined,
  sha256: string | undefined,
): AgentPackage | undefined {
  if (text === undefined) {
    if (sha256 === undefined) return undefined;
    throw new CloudInitError('cloudinit-package-invalid', '--package-sha256 needs --package');
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['https:', 'http:', 'file:'].includes(url.protocol))
    throw new CloudInitError('cloudinit-package-path', `invalid --package ${JSON.stringify(text)}`);
  if (url.protocol === 'http:')
    throw new CloudInitError('cloudinit-package-invalid', `invalid --package ${text}: use https://`);
  if (url.protocol === 'file:' && (url.host !== '' || !/^\/[\w.+~/-]+$/.test(url.pathname)))
    throw new CloudInitError('cloudinit-package-invalid', `invalid --package ${text}: use file:///PATH`);
  if (sha256 !== undefined && !/^[0-9a-fA-F]{64}$/.test(sha256))
    throw new CloudInitError(
      'cloudinit-package-invalid',
      `invalid --package-sha256 ${sha256}: use 64 hex digits`,
    );
  if (url.protocol !== 'file:' && sha256 === undefined)
    throw new CloudInitError('cloudinit-package-unverified', `--package ${text} needs --package-sha256`);
  return { url: url.href, sha256: sha256?.toLowerCase() };
}

/**
 * The command that installs the package with its dependencies, and the programs of a state disk, then starts the agent. It
 * is one script that stops at the first failure, since cloud-init continues after a failed command. Values are arguments,
 * never part of the script. Without a package nothing is installed: the image has the agent and its programs.
 */
export function installCommand(
  agentPackage: AgentPackage | undefined,
  { hasStateDisk }: { readonly hasStateDisk: boolean },
): readonly string[] {
  const start = 'systemctl restart bootstrapper.service';
  if (agentPackage === undefined) return ['systemctl', 'restart', 'bootstrapper.service'];
  const { url, sha256 } = agentPackage;
  const lines = ['export DEBIAN_FRONTEND=noninteractive', ...downloadLines(agentPackage), ...INSTALL, start];
  const more = hasStateDisk ? STATE_DISK_PROGRAMS.map(({ deb }) => deb) : [];
  return ['sh', '-euc', `${lines.join('\n')}\n`, 'cluster-agent', url, sha256 ?? '', ...more];
}

/** Tries without the network first: an image may contain all dependencies. Arguments after the hash are more packages. */
const INSTALL = [
  'shift 2',
  'install() { apt-get install --yes --no-install-recommends "$@"; }',
  'install "$deb" "$@" || { apt-get update; install "$deb" "$@"; }',
];

/** `$1` is the URL, `$2` the hash or empty. Sets `$deb` to the path of the verified package. */
function downloadLines({ url }: AgentPackage): readonly string[] {
  if (url.startsWith('file:'))
    return ['deb="${1#file://}"', '[ -z "$2" ] || echo "$2  $deb" | sha256sum --check --quiet'];
  return [
    '[ -e /etc/ssl/certs/ca-certificates.crt ] ||',
    '  { apt-get update; apt-get install --yes ca-certificates; }',
    `deb=${DOWNLOADED}`,
    'rm -f "$deb"',
    `${APT_HELPER} download-file "$1" "$deb" "SHA256:\${2:?no hash}"`,
  ];
}
