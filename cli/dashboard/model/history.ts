import type { History, HeartbeatChange, NodeUsage, ObservedNode, Point } from './observations.ts';

/** At one reading of the metrics each 15 seconds this is an hour. */
const MAX_POINTS = 240;
const MAX_CHANGES = 60;

/** Collects the curves of the plots while the dashboard runs. */
export class HistoryRecorder implements History {
  readonly latencies = new Map<string, readonly Point[]>();
  readonly heartbeats = new Map<string, readonly HeartbeatChange[]>();

  /** Adds the health of each node where it has changed, and forgets nodes that are gone. */
  addHealth(nodes: readonly Pick<ObservedNode, 'name' | 'health'>[], nowMs: number): void {
    const names = new Set(nodes.map(({ name }) => name));
    for (const name of this.heartbeats.keys()) if (!names.has(name)) this.heartbeats.delete(name);
    for (const { name, health } of nodes) {
      const known = this.heartbeats.get(name) ?? [];
      if (known.at(-1)?.health === health) continue;
      this.heartbeats.set(name, [...known, { atMs: nowMs, health }].slice(-MAX_CHANGES));
    }
  }

  /** Adds the latencies of a control plane. */
  addLatencies(name: string, { stateEtcd, kubernetesEtcd }: NodeUsage, nowMs: number): void {
    const add = (curve: string, value: number | undefined): void => {
      if (value === undefined) return;
      const known = this.latencies.get(curve) ?? [];
      this.latencies.set(curve, [...known, { atMs: nowMs, value }].slice(-MAX_POINTS));
    };
    add(`${name} state etcd, fsync`, stateEtcd?.fsyncMs);
    add(`${name} state etcd, round trip`, stateEtcd?.peerRoundTripMs);
    add(`${name} kube etcd, fsync`, kubernetesEtcd?.fsyncMs);
    add(`${name} kube etcd, round trip`, kubernetesEtcd?.peerRoundTripMs);
  }

  /** Forgets everything, when the caller may not see it any longer. */
  forget(): void {
    this.latencies.clear();
    this.heartbeats.clear();
  }
}
