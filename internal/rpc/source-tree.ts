import type { SourcePath } from './source-path.ts';

/** All items of one network, or of one holder at the lowest level. */
export interface SourceNode<T> {
  /** The name of the network, from `sourcePathOf`. */
  readonly source: string;
  readonly children: Map<string, SourceNode<T>>;
  /** Items of this network itself, oldest first. */
  readonly items: T[];
  /** The number of items in this node and below it. */
  size: number;
  /** Sequence number of the last time that it was served, or of its creation. */
  lastServed: number;
}

/** Items grouped by source network, to find the sources with the most and with the fewest items. */
export class SourceTree<T> {
  readonly #root: SourceNode<T> = createNode('', 0);
  #sequence = 0;

  get size(): number {
    return this.#root.size;
  }

  add(path: SourcePath, item: T): void {
    let node = this.#root;
    node.size++;
    for (const source of path) {
      const child = node.children.get(source) ?? createNode<T>(source, ++this.#sequence);
      node.children.set(source, child);
      child.size++;
      node = child;
    }
    node.items.push(item);
  }

  /** @returns false when the item was not there */
  remove(path: SourcePath, item: T): boolean {
    const nodes = this.#along(path);
    const items = nodes.at(-1)?.items ?? [];
    const at = items.indexOf(item);
    if (at < 0) return false;
    items.splice(at, 1);
    for (const [level, node] of nodes.entries()) {
      node.size--;
      if (node.size === 0 && level > 0) nodes[level - 1]?.children.delete(node.source);
    }
    return true;
  }

  /** Records that the sources of a path were served: among equal sources, those served longest ago are next. */
  recordServed(path: SourcePath): void {
    const sequence = ++this.#sequence;
    for (const node of this.#along(path)) node.lastServed = sequence;
  }

  /**
   * The newest item of the largest source, chosen at each level. Among equal sources, takes the source that was served
   * last.
   */
  newestOfLargest(): T | undefined {
    let node = this.#root;
    while (node.children.size > 0) {
      const largest = [...node.children.values()].reduce((a, b) =>
        b.size > a.size || (b.size === a.size && b.lastServed > a.lastServed) ? b : a,
      );
      // A relay has connections of its own, besides the connections of its clients.
      if (node.items.length > largest.size) break;
      node = largest;
    }
    return node.items.at(-1);
  }

  /**
   * The oldest item of the source with the lowest weight, chosen at each level. Among equal sources, takes the source
   * that was served longest ago. A source whose weight is undefined is skipped, with all sources below it.
   */
  oldestOfLeast(weigh: (source: string, level: number) => number | undefined): T | undefined {
    return oldestBelow(this.#root, 0, weigh);
  }

  #along(path: SourcePath): readonly SourceNode<T>[] {
    const nodes = [this.#root];
    for (const source of path) {
      const child = nodes.at(-1)?.children.get(source);
      if (child === undefined) return [];
      nodes.push(child);
    }
    return nodes;
  }
}

function createNode<T>(source: string, sequence: number): SourceNode<T> {
  return { source, children: new Map(), items: [], size: 0, lastServed: sequence };
}

function oldestBelow<T>(
  node: SourceNode<T>,
  level: number,
  weigh: (source: string, level: number) => number | undefined,
): T | undefined {
  const [own] = node.items;
  if (own !== undefined) return own;
  const weighed = [...node.children.values()].flatMap((child) => {
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
