import type { Harness } from '../../machines/harness.ts';

const LABEL = 'count';

export interface LabelWriter extends AsyncDisposable {
  /**
   * Stops the writer. Returns the last acknowledged count, the number of failed writes, and reads that
   * contradict acknowledged writes.
   */
  end(): Promise<{
    readonly acknowledged: number;
    readonly refused: number;
    readonly lost: readonly string[];
  }>;
}

/**
 * Increments a label of one node with `cluster node label` until it is told to end, through any curator that
 * responds.
 */
export function startLabelWriter(bench: Harness, workspace: string, node: string): LabelWriter {
  const stop = new AbortController();
  let acknowledged = 0;
  let tried = 0;
  let refused = 0;
  const lost: string[] = [];
  const read = async (): Promise<number | undefined> => {
    const { code, stdout } = await bench.cli(
      '--workspace',
      workspace,
      'node',
      'show',
      node,
      '--output',
      'json',
    );
    if (code !== 0) return undefined;
    return Number(new RegExp(`"${LABEL}":"(\\d+)"`).exec(stdout)?.[1] ?? '0');
  };
  const loop = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const next = ++tried;
      const { code } = await bench.cli('--workspace', workspace, 'node', 'label', node, `${LABEL}=${next}`);
      if (code === 0) acknowledged = next;
      else refused++;
      const now = await read();
      // A failed write may have been stored nevertheless, but the label must never be older than the last
      // acknowledged write.
      if (now !== undefined && now < acknowledged)
        lost.push(`read ${now} after ${acknowledged} was acknowledged`);
    }
  };
  const looping = loop();
  return {
    end: async () => {
      stop.abort();
      await looping;
      return { acknowledged, refused, lost };
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await looping;
    },
  };
}
