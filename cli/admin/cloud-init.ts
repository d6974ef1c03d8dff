import { stringify } from 'yaml';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { endpointFrom } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { ClusterError, lookAtWorkspace } from '../cluster/index.ts';
import { readOwnerKey } from '../workspace/index.ts';
import { ask } from './desk.ts';
import { AdminError } from './errors.ts';

const JOIN_PORT = 9090;
/** As on every image of a machine with a TPM. */
const TPM_DEVICE = '/dev/tpmrm0';

export interface CloudInitOptions {
  /** "host:port" of control planes; those of the cluster unless said. */
  readonly endpoints: readonly string[];
  /** Path or address of the agent's package, for machines whose image lacks it. */
  readonly package: string | undefined;
  readonly tpm: boolean;
  readonly format: 'cloud-init' | 'provisioning';
}

/**
 * `cluster node cloud-init`: what a machine must be given to find its cluster and to know it: the owner's public key and
 * where to ask. No secret is in it, and it is the same for every machine.
 */
export async function runCloudInit(context: CommandContext, options: CloudInitOptions): Promise<void> {
  const { layout, state } = await lookAtWorkspace(context);
  if (state.value.init?.result === undefined)
    throw new ClusterError('cluster-not-initialized', `looking at ${layout.root}: no init has finished`);
  const { pubKeyBase64 } = await readOwnerKey(context.ports.files, layout);
  const joinEndpoints =
    options.endpoints.length > 0 ? options.endpoints.map(endpointOf) : await known(context);
  const provisioning = {
    version: 1,
    platform: 'metal',
    ownerKeys: [pubKeyBase64],
    tpm: options.tpm ? { kind: 'device', path: TPM_DEVICE } : { kind: 'none' },
    joinEndpoints,
  };
  const json = `${JSON.stringify(provisioning, undefined, 2)}\n`;
  const userData = cloudConfig(json, options.package);
  context.host.result({ provisioning, cloudConfig: userData }, () =>
    options.format === 'provisioning' ? json.trimEnd() : userData.trimEnd(),
  );
}

/** User data for cloud-init: the file, then the package that reads it. */
export function cloudConfig(provisioningJson: string, agentPackage: string | undefined): string {
  const install =
    agentPackage === undefined
      ? []
      : /^https?:/.test(agentPackage)
        ? [
            ['curl', '-fsSLo', '/var/tmp/cluster-agent.deb', agentPackage],
            ['dpkg', '-i', '/var/tmp/cluster-agent.deb'],
          ]
        : [['dpkg', '-i', agentPackage]];
  const config = {
    write_files: [
      {
        path: '/etc/cluster/provisioning.json',
        permissions: '0600',
        owner: 'root:root',
        content: provisioningJson,
      },
    ],
    runcmd: [...install, ['systemctl', 'restart', 'bootstrapper.service']],
  };
  return `#cloud-config\n${stringify(config, { lineWidth: 0 })}`;
}

function endpointOf(text: string): string {
  const endpoint = endpointFrom(text, JOIN_PORT);
  if (endpoint === undefined)
    throw new AdminError(
      'manage-flag-invalid',
      `reading the endpoint ${JSON.stringify(text)}: HOST or HOST:PORT`,
    );
  return endpoint;
}

/** Every control plane that there is now. */
async function known(context: CommandContext): Promise<readonly string[]> {
  const { directory } = await ask(context, (_, call, of) => of(Curator).getClusterInfo({}, call));
  return directory.map(({ curatorEndpoint }) => {
    const host = curatorEndpoint.slice(0, curatorEndpoint.lastIndexOf(':'));
    return endpointFrom(host, JOIN_PORT) ?? `${host}:${JOIN_PORT}`;
  });
}
