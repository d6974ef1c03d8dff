/** A worker that can be named as a relay. */
export interface RelayCandidate {
  readonly address: string;
  readonly isAlive: boolean;
}

/**
 * Maximum number of relays: enough that a node finds a reachable relay after a long absence, and few enough that
 * every node can store the list.
 */
export const MAX_RELAYS = 8;

/**
 * Chooses a few workers as relays. A chosen worker stays chosen while it is alive. A worker that loses its
 * heartbeat is replaced, and is not chosen again when it returns, so that watchers are not woken again and
 * again. Workers without a heartbeat are listed only while there are too few others, since they may be back
 * before a node that is off needs them.
 */
export class RelayChoice {
  readonly #candidates = new Map<string, RelayCandidate>();
  #chosen: readonly string[] = [];

  /** Forgets all candidates, but remembers which workers were chosen. */
  clear(): void {
    this.#candidates.clear();
  }

  /** Adds, replaces or removes a candidate. */
  set(nodeId: string, candidate: RelayCandidate | undefined): void {
    if (candidate === undefined) this.#candidates.delete(nodeId);
    else this.#candidates.set(nodeId, candidate);
  }

  /** The addresses of the chosen workers, ordered by node ID. */
  choose(): readonly string[] {
    this.#chosen = this.#next().toSorted();
    return this.#chosen.flatMap((nodeId) => this.#candidates.get(nodeId)?.address ?? []);
  }

  #next(): readonly string[] {
    const isAlive = (nodeId: string): boolean => this.#candidates.get(nodeId)?.isAlive === true;
    const staying = this.#chosen.filter(isAlive);
    // The usual case: all chosen workers are alive, so no other candidate is considered.
    if (staying.length === MAX_RELAYS) return staying;
    const others = [...this.#candidates.keys()].filter((nodeId) => !this.#chosen.includes(nodeId)).toSorted();
    const notAlive = this.#chosen.filter((nodeId) => this.#candidates.has(nodeId) && !isAlive(nodeId));
    return [
      ...staying,
      ...others.filter(isAlive),
      ...notAlive,
      ...others.filter((nodeId) => !isAlive(nodeId)),
    ].slice(0, MAX_RELAYS);
  }
}
