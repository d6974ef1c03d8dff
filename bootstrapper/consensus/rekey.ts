import { Namespace, type EtcdClient, type Member } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import { endpointOf, type ConsensusConfig, type ConsensusPorts } from './consensus-config.ts';
import { waitUntilServing } from './enter.ts';
import type { PkiPorts } from './etcd-pki.ts';
import { consensusLayout, type ConsensusLayout } from './layout.ts';
import { countAnswering } from './peers.ts';
import { preparePki } from './prepare-pki.ts';
import { connectAsRoot, originOf, runEtcd } from './run-etcd.ts';
import { holdSlot } from './slot.ts';

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
  const layout = consensusLayout(config.stateDir);
  const pki: PkiPorts = { files, nowMs: () => clock.nowMs() };
  await preparePki(pki, config, layout);
  using admin = await connectAsRoot(ports, layout, [endpointOf(config)]);
  const etcd = new Namespace(admin, CLUSTER_PREFIX);
  const onPlace = (place: number): void =>
    onWait?.(`the turn of this node to take new keys: ${place} before it`, undefined);
  await holdSlot({ etcd, clock, log }, { nodeId: config.nodeId, onPlace, signal }, async (slot) => {
    await untilSpared(ports, { config, layout, admin }, slot.signal);
    const settings = { ...config, origin: await originOf(files, layout) };
    await runEtcd(ports, { ...config, layout, settings }, slot.signal);
    await waitUntilServing(ports, admin, config, slot.signal);
    await work(slot.signal);
  });
}

/** Until etcd can do without this member for the seconds of a new start, as far as it ever can. */
async function untilSpared(
  ports: ConsensusPorts,
  at: { readonly config: ConsensusConfig; readonly layout: ConsensusLayout; readonly admin: EtcdClient },
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const voters = await at.admin.members.list({ signal, timeoutMs: LIST_MS });
    const others = votersBut(at.config.nodeId, voters);
    const answering = await countAnswering(ports, at.layout, others, signal);
    if (canSpare({ others: others.length, answering })) return;
    ports.onWait?.(`${others.length - answering} of ${others.length} other members of etcd`, undefined);
    await ports.clock.sleep(POLL_MS, signal);
  }
}

function votersBut(nodeId: string, members: readonly Member[]): readonly Member[] {
  return members.filter(({ name, isLearner }) => !isLearner && name !== nodeId);
}

/** Those that answer are a quorum by themselves; or there are no more, and a new start costs all of them seconds. Pure. */
export function canSpare({
  others,
  answering,
}: {
  readonly others: number;
  readonly answering: number;
}): boolean {
  const quorum = Math.floor((others + 1) / 2) + 1;
  return answering >= quorum || answering === others;
}
