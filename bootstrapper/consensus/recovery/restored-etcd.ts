import { CodedError } from '../../../internal/errors/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import { ConsensusError } from '../errors.ts';
import { waitUntilServing } from '../membership/join-etcd.ts';
import { buildEtcdConfig, buildEtcdUnit, urlOf } from '../unit/etcd-unit.ts';
import { connectAsRoot } from '../unit/run-etcd.ts';
import type { RecoverConfig } from './data-copy.ts';
import { RESTORE_MS } from './restore-snapshot.ts';
import { removeThrowawayMemory, type ThrowawayPlace } from './throwaway-place.ts';

/**
 * The unit of the throwaway etcd that proves a backup. The agent stops this unit when it starts. A quorum recovery may
 * be running then, so it uses a different unit.
 */
export const PROOF_ETCD_UNIT = 'cluster-etcd-proof.service';
const OWN_MS = 60_000;
/** Long enough to read a large database from disk, because the other services of the machine have priority. */
const READY_MS = 5 * 60_000;

/** The unit of `etcdutl`, which writes the data of the throwaway etcd. */
export const PROOF_RESTORE_UNIT = 'cluster-etcd-proof-restore.service';

const MIB = 1024 ** 2;
const MEMORY_HIGH_MIB = 768;
const MEMORY_MAX_MIB = 1024;

/**
 * Settings that keep the proof of a backup from harming the etcd members on the same machine. systemd ends a unit that uses
 * more memory than MemoryMax, and the members have priority for processor and disk. etcd maps its database into memory;
 * the kernel can reclaim those pages, unless they are a file in memory. The kernel counts such a file for the unit that writes it.
 */
function limitsOf({ memoryBytes }: ThrowawayPlace): readonly string[] {
  const filesMib = Math.ceil(memoryBytes / MIB);
  return [
    `MemoryHigh=${MEMORY_HIGH_MIB + filesMib}M`,
    `MemoryMax=${MEMORY_MAX_MIB + filesMib}M`,
    'MemorySwapMax=0',
    'OOMScoreAdjust=900',
    'Nice=19',
    'CPUWeight=10',
    'IOWeight=10',
    'IOSchedulingClass=idle',
  ];
}

/** A snapshot of etcd in a file, and the place where it is restored. */
export interface SnapshotToRestore {
  readonly path: string;
  readonly place: ThrowawayPlace;
}

/**
 * Restores a snapshot into a new directory, in memory or beside the data of this member. Runs `work` with a throwaway etcd on the
 * restored data, on separate loopback ports. The directory is deleted afterwards. The running member is not changed.
 * Revisions stay as in the snapshot.
 * @throws ConsensusError `consensus-snapshot-invalid` if etcdutl refuses the snapshot
 */
export async function withRestoredSnapshot<T>(
  ports: SystemPorts,
  config: RecoverConfig,
  { path: snapshot, place }: SnapshotToRestore,
  work: (restored: EtcdClient) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const { files, commands, units } = ports;
  const { etcd, layout, temporaryPorts, nodeId, etcdutlBinary } = config;
  const directory = place.restored ?? throwawayOf(layout);
  const limits = limitsOf(place);
  const settings = {
    ...{ ...config, address: '127.0.0.1', ports: temporaryPorts },
    layout: { ...layout, data: `${directory}/data`, configFile: `${directory}/etcd.json` },
  };
  const peerUrl = urlOf(settings.address, temporaryPorts.peer);
  await stopUnits(units, signal);
  await files.remove(directory);
  await files.makeDirectory(directory);
  try {
    await commands
      .run({
        argv: [
          'systemd-run',
          ...['--quiet', '--wait', '--pipe', '--collect', `--unit=${PROOF_RESTORE_UNIT}`],
          ...limits.map((limit) => `--property=${limit}`),
          ...['--', etcdutlBinary],
          ...['snapshot', 'restore', snapshot, '--data-dir', settings.layout.data, '--name', nodeId],
          ...['--initial-cluster', `${nodeId}=${peerUrl}`, '--initial-advertise-peer-urls', peerUrl],
        ],
        timeoutMs: RESTORE_MS,
        signal,
      })
      .catch((cause: unknown) => {
        if (!(cause instanceof CodedError) || cause.code !== 'exec-failed') throw cause;
        const doing = `restoring a snapshot of ${etcd.title}`;
        throw new ConsensusError('consensus-snapshot-invalid', doing, { cause });
      });
    await files.writeAtomic(settings.layout.configFile, buildEtcdConfig(settings, { kind: 'first' }));
    const owner = `${etcd.systemUser}:${etcd.systemUser}`;
    await commands.run({
      argv: ['chown', '--recursive', '--no-dereference', owner, directory],
      timeoutMs: OWN_MS,
      signal,
    });
    const unit = `${[buildEtcdUnit(settings).trimEnd(), ...limits, 'Restart=no'].join('\n')}\n`;
    await units.install(PROOF_ETCD_UNIT, unit, signal);
    await units.start(PROOF_ETCD_UNIT, signal);
    using restored = await connectAsRoot(ports, layout, [`127.0.0.1:${temporaryPorts.client}`]);
    await waitUntilServing(ports, restored, { etcd, readyTimeoutMs: READY_MS }, signal);
    return await work(restored);
  } finally {
    // Stops the units even when the agent ends. Otherwise the next run of the agent would find a running etcd.
    await stopUnits(units, new AbortController().signal);
    await files.remove(directory);
  }
}

/** Ends a throwaway etcd that an earlier run of the agent left, and deletes its data, also in memory. */
export async function removeRestoredSnapshots(
  ports: Pick<SystemPorts, 'files' | 'commands' | 'units'>,
  {
    layouts,
    memoryDirectory,
  }: { readonly layouts: readonly ConsensusLayout[]; readonly memoryDirectory: string },
  signal: AbortSignal,
): Promise<void> {
  await stopUnits(ports.units, signal);
  for (const layout of layouts) await ports.files.remove(throwawayOf(layout));
  await removeThrowawayMemory(ports, memoryDirectory, signal);
}

async function stopUnits(units: SystemPorts['units'], signal: AbortSignal): Promise<void> {
  for (const unit of [PROOF_RESTORE_UNIT, PROOF_ETCD_UNIT]) await units.stop(unit, signal);
}

function throwawayOf({ etcdHome }: ConsensusLayout): string {
  return `${etcdHome}/throwaway`;
}
