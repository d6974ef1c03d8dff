import { isAbort } from '../../../internal/errors/index.ts';
import { EtcdError, Namespace, type EtcdClient, type Member } from '../../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../../internal/records/index.ts';
import { quorumOf } from '../../../internal/role/index.ts';
import { ownEndpointOf, type ConsensusConfig, type ConsensusPorts } from '../consensus-config.ts';
import { waitUntilServing } from '../membership/join-etcd.ts';
import type { PkiPorts } from './ensure-certificates.ts';
import { consensusLayout, type ConsensusLayout } from '../consensus-layout.ts';
import { countAnswering } from '../membership/peers.ts';
import { ensurePki } from './ensure-pki.ts';
import { connectAsRoot, originOf, runEtcd } from '../unit/run-etcd.ts';
import { withSlot } from '../membership/slot.ts';

const LIST_MS = 5_000;
const POLL_MS = 1_000;

/**
 * Brings the authorities that are on disk now (`settleEtcd`) into force: what etcd and its users here show at once, whom it
 * believes with a new start. That is in this node's turn, when the others can do without it; `work` is done in the same
 * turn, once etcd serves again.
 */
export async function rekey(
  ports: ConsensusPorts,
  config: ConsensusConfig,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, files, onWait } = ports;
  const layout = consensusLayout(config.stateDir, config.etcd.name);
  const pki: PkiPorts = { files, nowMs: () => clock.nowMs() };
  await ensurePki(pki, config, layout);
  using admin = await connectAsRoot(ports, layout, [ownEndpointOf(config)]);
  const etcd = new Namespace(admin, CLUSTER_PREFIX);
  const onPosition = (place: number): void =>
    onWait?.(`the turn of this node to take new keys: ${place} before it`, undefined);
  const at = { config, layout, admin };
  for (;;) {
    try {
      // Asked before the turn, too: who waits in it would hold up who takes a lost member out.
      if (await isSpared(ports, at, signal)) {
        const turn = { nodeId: config.nodeId, onPosition, signal };
        const isDone = await withSlot({ etcd, clock, log }, turn, async (slot) => {
          if (!(await isSpared(ports, at, slot.signal))) return false;
          const settings = { ...config, origin: await originOf(files, layout) };
          await runEtcd(ports, { ...config, layout, settings }, slot.signal);
          await waitUntilServing(ports, admin, config, slot.signal);
          await work(slot.signal);
          return true;
        });
        if (isDone) return;
      }
    } catch (error) {
      // Others are started anew, too, and then there is no leader for a moment.
      if (isAbort(error, signal) || !(error instanceof EtcdError && error.retryable)) throw error;
      onWait?.('etcd', error);
    }
    await clock.sleep(POLL_MS, signal);
  }
}

/** Whether etcd can do without this member for the seconds of a new start, as far as it ever can. */
async function isSpared(
  ports: ConsensusPorts,
  at: { readonly config: ConsensusConfig; readonly layout: ConsensusLayout; readonly admin: EtcdClient },
  signal: AbortSignal,
): Promise<boolean> {
  const others = votersBut(at.config.nodeId, await at.admin.members.list({ signal, timeoutMs: LIST_MS }));
  const answering = await countAnswering(ports, at.layout, others, signal);
  if (canRestart({ others: others.length, answering })) return true;
  ports.onWait?.(`${others.length - answering} of ${others.length} other members of etcd`, undefined);
  return false;
}

function votersBut(nodeId: string, members: readonly Member[]): readonly Member[] {
  return members.filter(({ name, isLearner }) => !isLearner && name !== nodeId);
}

/** Those that answer are a quorum by themselves; or there are no more, and a new start costs all of them seconds. Pure. */
export function canRestart({
  others,
  answering,
}: {
  readonly others: number;
  readonly answering: number;
}): boolean {
  return answering >= quorumOf(others + 1) || answering === others;
}
