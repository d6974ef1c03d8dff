import type { SourcePath } from './source-path.ts';

/** Everything that came from one network, or from one holder at the lowest level. */
export interface SourceNode<T> {
  /** As `sourcePathOf` names it. */
  readonly source: string;
  readonly children: Map<string, SourceNode<T>>;
  /** Of a holder only, oldest first. */
  readonly items: T[];
  /** Items in it and below it. */
  size: number;
  /** Grows with each new share and each time that it was its turn. */
  lastServed: number;
}

/** Items by their source, with an order among sources: nobody gets more by coming more often. */
export class SourceTree<T> {
  readonly #root: SourceNode<T> = shareOf('', 0);
  #turns = 0;

  get size(): number {
    return this.#root.size;
  }

  add(path: SourcePath, item: T): void {
    let share = this.#root;
    share.size++;
    for (const source of path) {
      const child = share.children.get(source) ?? shareOf<T>(source, ++this.#turns);
      share.children.set(source, child);
      child.size++;
      share = child;
    }
    share.items.push(item);
  }

  /** false: it was not there. */
  remove(path: SourcePath, item: T): boolean {
    const shares = this.#along(path);
    const items = shares.at(-1)?.items ?? [];
    const at = items.indexOf(item);
    if (at < 0) return false;
    items.splice(at, 1);
    for (const [level, share] of shares.entries()) {
      share.size--;
      if (share.size === 0 && level > 0) shares[level - 1]?.children.delete(share.source);
    }
    return true;
  }

  /** These sources had their turn: of equal ones the others come first. */
  markServed(path: SourcePath): void {
    const turn = ++this.#turns;
    for (const share of this.#along(path)) share.lastServed = turn;
  }

  /** The newest item of whoever has most, level by level; of equal ones, of who came last. */
  newestOfLargest(): T | undefined {
    let share = this.#root;
    while (share.children.size > 0) {
      const largest = [...share.children.values()].reduce((a, b) =>
        b.size > a.size || (b.size === a.size && b.lastServed > a.lastServed) ? b : a,
      );
      share = largest;
    }
    return share.items.at(-1);
  }

  /**
   * The oldest item of who has least: at each level the share with the lowest `weigh`, of equal ones the one whose turn is
   * longest ago. What `weigh` gives as undefined is left out, with all below it.
   */
  oldestOfLeast(weigh: (source: string, level: number) => number | undefined): T | undefined {
    return oldestBelow(this.#root, 0, weigh);
  }

  #along(path: SourcePath): readonly SourceNode<T>[] {
    const shares = [this.#root];
    for (const source of path) {
      const child = shares.at(-1)?.children.get(source);
      if (child === undefined) return [];
      shares.push(child);
    }
    return shares;
  }
}

function shareOf<T>(source: string, turn: number): SourceNode<T> {
  return { source, children: new Map(), items: [], size: 0, lastServed: turn };
}

function oldestBelow<T>(
  share: SourceNode<T>,
  level: number,
  weigh: (source: string, level: number) => number | undefined,
): T | undefined {
  if (share.children.size === 0) return share.items[0];
  const weighed = [...share.children.values()].flatMap((child) => {
    const weight = weigh(child.source, level);
    return weight === undefined ? [] : [{ child, weight }];
  });
  weighed.sort((a, b) => a.weight - b.weight || a.child.lastServed - b.child.lastServed);
  for (const { child } of weighed) {
    const found = oldestBelow(child, level + 1, weigh);
    if (found !== undefined) return found;
  }
  return undefined;
}
