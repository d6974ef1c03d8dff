import type { Clock } from '../../../internal/clock/index.ts';
import { EtcdClient } from '../../../internal/etcd/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { ensureSystemUser, ensureUnit, type ServiceUnits } from '../../units/index.ts';
import { readText } from '../pki/ensure-certificates.ts';
import {
  buildEtcdConfig,
  buildEtcdUnit,
  originFromConfig,
  type EtcdSettings,
  type MemberOrigin,
} from './etcd-unit.ts';
import type { EtcdInstance } from '../etcd-instances.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import { trustDigest } from '../pki/shared-keys.ts';

const MAX_CONFIG_BYTES = 64 * 1024;

/** Ports (injected dependencies) of the function that runs etcd. */
export interface RunEtcdPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ServiceUnits;
  readonly log: Logger;
}

/**
 * Writes the configuration and the unit of an etcd member and starts the member. A running member is
 * restarted only if one of the two files has changed. With `keepRunning`, this function does not restart the
 * member, because the node does not hold the slot yet.
 */
export async function runEtcd(
  { files, commands, units, log }: RunEtcdPorts,
  run: {
    readonly etcd: EtcdInstance;
    readonly settings: EtcdSettings;
    readonly etcdBinary: string;
    readonly stateDir: string;
    readonly layout: ConsensusLayout;
    readonly keepRunning?: boolean;
  },
  signal: AbortSignal,
): Promise<void> {
  const { etcd, layout, etcdBinary, stateDir } = run;
  const { unit, systemUser } = etcd;
  if (run.keepRunning === true && (await units.status(unit, signal)).active === 'active') return;
  const config = buildEtcdConfig(run.settings, layout);
  const found = await files.read(layout.configFile, MAX_CONFIG_BYTES);
  if (found === undefined || Buffer.from(found).toString('utf8') !== config) {
    // Before the write: after a crash in between, the next start of the agent restarts etcd.
    await units.requireRestart(unit);
    await files.writeAtomic(layout.configFile, config);
  }
  await ensureSystemUser(commands, { user: systemUser, description: etcd.title }, signal);
  await commands.run({
    argv: ['chown', '--recursive', '--no-dereference', `${systemUser}:${systemUser}`, layout.etcdHome],
    timeoutMs: 60_000,
    signal,
  });
  const trustBundleSha256 = await trustDigest(files, layout);
  const content = buildEtcdUnit({ etcd, etcdBinary, stateDir, layout, trustBundleSha256 });
  if (await ensureUnit(units, { unit, content }, signal))
    log.info('restarted etcd with a new configuration', { etcd: etcd.name });
}

/** Reads the origin from the configuration on disk, because a member keeps the origin of its first start. */
export async function originOf(files: FilePort, layout: ConsensusLayout): Promise<MemberOrigin> {
  const found = await files.read(layout.configFile, MAX_CONFIG_BYTES);
  return originFromConfig(Buffer.from(found ?? []).toString('utf8'));
}

/** Connects to these members as etcd's root user. */
export async function connectAsRoot(
  ports: { readonly files: FilePort; readonly clock: Clock },
  layout: ConsensusLayout,
  endpoints: readonly [string, ...string[]],
): Promise<EtcdClient> {
  const { files, clock } = ports;
  const root = layout.user('root');
  return new EtcdClient({
    endpoints,
    identity: {
      certPem: await readText(files, root.certFile),
      keyPem: new Secret(await readText(files, root.keyFile)),
    },
    serverCaPem: await readText(files, root.caFile),
    clock,
  });
}
