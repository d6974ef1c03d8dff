import type { Clock } from '../../../internal/clock/index.ts';
import { EtcdClient } from '../../../internal/etcd/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
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

export interface RunEtcdPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ConsensusUnits;
  readonly log: Logger;
}

/**
 * Writes etcd's configuration and unit and starts it. A running one is restarted only when one of them has changed, and not
 * even then where it is left alone: until this node's turn.
 */
export async function runEtcd(
  { files, commands, units, log }: RunEtcdPorts,
  run: {
    readonly etcd: EtcdInstance;
    readonly settings: EtcdSettings;
    readonly etcdBinary: string;
    readonly stateDir: string;
    readonly layout: ConsensusLayout;
    readonly keepsRunning?: boolean;
  },
  signal: AbortSignal,
): Promise<void> {
  const { etcd, layout, etcdBinary, stateDir } = run;
  const { unit, systemUser } = etcd;
  if (run.keepsRunning === true && (await units.status(unit, signal)).active === 'active') return;
  const written = buildEtcdConfig(run.settings, layout);
  const found = await files.read(layout.configFile, MAX_CONFIG_BYTES);
  if (found === undefined || Buffer.from(found).toString('utf8') !== written) {
    await units.requireRestart(unit); // also for the next start of the agent, should it end before the restart
    await files.writeAtomic(layout.configFile, written);
  }
  await commands.run({
    argv: ['systemd-sysusers', '--inline', `u ${systemUser} - "${etcd.title} (cluster)" /nonexistent`],
    timeoutMs: 20_000,
    signal,
  });
  await commands.run({
    argv: ['chown', '--recursive', '--no-dereference', `${systemUser}:${systemUser}`, layout.etcdHome],
    timeoutMs: 60_000,
    signal,
  });
  const trustsSha256 = await trustDigest(files, layout);
  const content = buildEtcdUnit({ etcd, etcdBinary, stateDir, layout, trustsSha256 });
  const changed = await units.install(unit, content, signal);
  const { active } = await units.status(unit, signal);
  if (active === 'active' && changed) {
    log.info('restarting etcd with a new configuration', { etcd: etcd.name });
    await units.restart(unit, signal);
  } else if (active !== 'active') await units.start(unit, signal);
}

/** What etcd was first started with; a running one must not be restarted for it. */
export async function originOf(files: FilePort, layout: ConsensusLayout): Promise<MemberOrigin> {
  const found = await files.read(layout.configFile, MAX_CONFIG_BYTES);
  return originFromConfig(Buffer.from(found ?? []).toString('utf8'));
}

/** A client of these members as etcd's root. */
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

/** What consensus needs of systemd; `internal/platform` has it. */
export interface ConsensusUnits {
  install(unit: string, content: string, signal: AbortSignal): Promise<boolean>;
  requireRestart(unit: string): Promise<void>;
  start(unit: string, signal: AbortSignal): Promise<void>;
  restart(unit: string, signal: AbortSignal): Promise<void>;
  stop(unit: string, signal: AbortSignal): Promise<void>;
  status(unit: string, signal: AbortSignal): Promise<{ readonly active: string }>;
}
