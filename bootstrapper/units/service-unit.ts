import { NODE_MEMORY, SERVICE_SANDBOX } from '../../internal/platform/index.ts';

/** System user and group of the join service. */
export const JOINSERVICE_USER = 'cluster-joinservice';
/** Socket at which the join service calls the signer. systemd deletes its directory when the unit stops. */
export const SIGNER_SOCKET = '/run/cluster-signer/signer.sock';
/**
 * Socket at which the join service forwards the signer's TLS connections to etcd. The TLS session is between
 * signer and etcd.
 */
export const ETCD_PROXY_SOCKET = '/run/cluster-joinservice/etcd.sock';

/** A service of the agent package that runs as a separate user and gets its files as systemd credentials. */
export interface CredentialService {
  /** "cluster-NAME.service". "cluster-NAME" is also the name of the unit's runtime directory. */
  readonly unit: string;
  readonly description: string;
  readonly after: string;
  readonly user: string;
  readonly group: string;
  /** Program and arguments. The path of the configuration is appended. */
  readonly command: readonly [string, ...string[]];
  /**
   * Path of the source file for each credential, by the credential's name. "config.json" is the
   * configuration.
   */
  readonly credentials: Readonly<Record<string, string>>;
  /**
   * SHA-256 of the credentials' contents, so that changed credentials change the unit and restart the
   * service.
   */
  readonly credentialsSha256: string;
  /**
   * Further lines of [Service], each with a line break: limits, directories, visible paths, further
   * sandboxing.
   */
  readonly limits?: string;
  readonly directories?: string;
  readonly visibility: string;
  readonly sandbox?: string;
}

/** Directory in which systemd provides the credentials of a unit (systemd.exec(5), LoadCredential=). */
export function credentialsDirectory(unit: string): string {
  return `/run/credentials/${unit}`;
}

/**
 * Builds the unit file. The service has no capabilities and can read no state of the cluster except its
 * credentials.
 */
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
