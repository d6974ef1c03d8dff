/** A worker that may be a relay. */
export interface RelayCandidate {
  readonly address: string;
  readonly isAlive: boolean;
}

/** Enough for one of them to be there after any absence, and no more for every node to keep. */
export const MAX_RELAYS = 8;

/**
 * A few workers that pass connections on. Who was chosen stays as long as its heart beats: one that comes and goes is left
 * once, and nobody is told of it again and again. Who is silent is named only while there are too few others, since it may be
 * back before who reads this is.
 */
export class RelayChoice {
  readonly #candidates = new Map<string, RelayCandidate>();
  #chosen: readonly string[] = [];

  clear(): void {
    this.#candidates.clear();
  }

  set(nodeId: string, candidate: RelayCandidate | undefined): void {
    if (candidate === undefined) this.#candidates.delete(nodeId);
    else this.#candidates.set(nodeId, candidate);
  }

  /** Their addresses, in the order of their ids. */
  choose(): readonly string[] {
    this.#chosen = this.#next().toSorted();
    return this.#chosen.flatMap((nodeId) => this.#candidates.get(nodeId)?.address ?? []);
  }

  #next(): readonly string[] {
    const isBeating = (nodeId: string): boolean => this.#candidates.get(nodeId)?.isAlive === true;
    const staying = this.#chosen.filter(isBeating);
    // Most of the time: thousands of nodes change, and it is none of them.
    if (staying.length === MAX_RELAYS) return staying;
    const others = [...this.#candidates.keys()].filter((nodeId) => !this.#chosen.includes(nodeId)).toSorted();
    const silent = this.#chosen.filter((nodeId) => this.#candidates.has(nodeId) && !isBeating(nodeId));
    return [
      ...staying,
      ...others.filter(isBeating),
      ...silent,
      ...others.filter((nodeId) => !isBeating(nodeId)),
    ].slice(0, MAX_RELAYS);
  }
}
