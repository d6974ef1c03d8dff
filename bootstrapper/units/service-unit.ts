import { NODE_MEMORY, SERVICE_SANDBOX } from '../../internal/platform/index.ts';

/** A service of the agent package that runs as a user of its own and gets its files as systemd credentials. */
export interface CredentialService {
  /** "cluster-NAME.service"; "cluster-NAME" is its runtime directory too. */
  readonly unit: string;
  readonly description: string;
  readonly after: string;
  readonly user: string;
  readonly group: string;
  /** Program and arguments; the path of the configuration is added. */
  readonly command: readonly [string, ...string[]];
  /** Name of each credential and the file it is loaded from; "config.json" is the configuration. */
  readonly credentials: Readonly<Record<string, string>>;
  /** SHA-256 of their contents, so that new ones change the unit and restart the service. */
  readonly credentialsSha256: string;
  /** Further lines of [Service], each with a line break: limits, directories, what it sees, more sandboxing. */
  readonly limits?: string;
  readonly directories?: string;
  readonly visibility: string;
  readonly sandbox?: string;
}

/** Where systemd shows a unit its credentials (systemd.exec(5), LoadCredential=). */
export function credentialsDirectory(unit: string): string {
  return `/run/credentials/${unit}`;
}

/** The unit file. The service has no capability and sees nothing of the state of the cluster but its credentials. */
export function buildCredentialService(service: CredentialService): string {
  const { unit, credentials, limits = '', directories = '', visibility, sandbox = '' } = service;
  const name = unit.replace(/\.service$/, '');
  const loaded = Object.entries(credentials).map(
    ([credential, path]) => `LoadCredential=${credential}:${path}`,
  );
  return `# Credentials: ${service.credentialsSha256}
[Unit]
Description=${service.description}
After=${service.after}
StartLimitIntervalSec=0

[Service]
Type=exec
User=${service.user}
Group=${service.group}
ExecStart=${service.command.join(' ')} ${credentialsDirectory(unit)}/config.json
Restart=always
RestartSec=1
TimeoutStopSec=10
${limits}OOMScoreAdjust=-500
UMask=0007
${directories}RuntimeDirectory=${name}
RuntimeDirectoryMode=0750
${loaded.join('\n')}

${visibility}${SERVICE_SANDBOX}
${NODE_MEMORY}
${sandbox}SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
`;
}
