import { EtcdClient } from '../../../internal/etcd/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { ensureSystemUser, ensureUnit } from '../../units/index.ts';
import { requireText } from '../pki/ensure-certificates.ts';
import {
  buildEtcdConfig,
  buildEtcdUnit,
  originFromConfig,
  type EtcdSettings,
  type MemberOrigin,
} from './etcd-unit.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import { trustDigest } from '../pki/shared-keys.ts';

/**
 * Writes the configuration and the unit of an etcd member and starts the member. A running member is restarted only if
 * one of the two files has changed. With `keepRunning` a running member is not restarted: only one control plane at a
 * time may restart its member, and this node does not hold the slot for that now.
 */
export async function runEtcd(
  { files, commands, units, log }: Omit<SystemPorts, 'clock'>,
  settings: EtcdSettings,
  {
    origin,
    keepRunning = false,
  }: { readonly origin: MemberOrigin; readonly keepRunning?: boolean | undefined },
  signal: AbortSignal,
): Promise<void> {
  const { etcd, layout } = settings;
  const { unit, systemUser } = etcd;
  if (keepRunning && (await units.status(unit, signal)).active === 'active') return;
  const config = buildEtcdConfig(settings, origin);
  if ((await readText(files, layout.configFile)) !== config) {
    // Requested before the write: after a crash in between, the next start of the agent restarts etcd.
    await units.requireRestart(unit);
    await files.writeAtomic(layout.configFile, config);
  }
  await ensureSystemUser(commands, { user: systemUser, description: etcd.title }, signal);
  await commands.run({
    argv: ['chown', '--recursive', '--no-dereference', `${systemUser}:${systemUser}`, layout.etcdHome],
    timeoutMs: 60_000,
    signal,
  });
  const content = buildEtcdUnit(settings, await trustDigest(files, layout));
  if (await ensureUnit(units, { unit, content }, signal))
    log.info('restarted etcd with a new configuration', { etcd: etcd.name });
}

/** Reads the origin from the configuration on disk, because a member keeps the origin of its first start. */
export async function originOf(files: FilePort, layout: ConsensusLayout): Promise<MemberOrigin> {
  return originFromConfig((await readText(files, layout.configFile)) ?? '');
}

/** Connects to these members as etcd's root user. */
export async function connectAsRoot(
  { files, clock }: Pick<SystemPorts, 'files' | 'clock'>,
  layout: ConsensusLayout,
  endpoints: readonly [string, ...string[]],
): Promise<EtcdClient> {
  const root = layout.user('root');
  return new EtcdClient({
    endpoints,
    identity: {
      certPem: await requireText(files, root.certFile),
      keyPem: new Secret(await requireText(files, root.keyFile)),
    },
    serverCaPem: await requireText(files, root.caFile),
    clock,
  });
}
