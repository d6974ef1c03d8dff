import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../../host/fake-host.ts';
import type { ScreenLine } from '../../host/index.ts';
import { createFakeCluster } from '../fake-cluster.ts';
import { runDashboard } from '../index.ts';

let cluster: Awaited<ReturnType<typeof createFakeCluster>>;
beforeEach(async () => {
  cluster = await createFakeCluster(3);
});
afterEach(() => cluster[Symbol.asyncDispose]());

/** Runs the dashboard on a screen that a test draws on itself. */
function start(onDraw: (text: string, press: (key: string) => void) => void) {
  const seen = { isClosed: false };
  const host = new RecordingHost();
  const stopping = new AbortController();
  host.fullScreen = ({ onKey }) => ({
    ...{ columns: 100, rows: 30, isUnicode: true },
    draw: (lines: readonly ScreenLine[]) =>
      onDraw(lines.map((line) => line.map(({ text }) => text).join('')).join('\n'), onKey),
    [Symbol.dispose]: () => void (seen.isClosed = true),
  });
  const running = runDashboard({ ...cluster.harness.owner, host, signal: stopping.signal }, {});
  return { seen, host, stopping, running };
}

describe('cluster dashboard', () => {
  test('draws what the cluster tells, and ends at q with the terminal restored', async () => {
    const shown: string[] = [];
    const { seen, running } = start((text, press) => {
      shown.push(text);
      if (text.includes('n3 ')) press('q');
    });
    await running;
    expect(shown.at(-1)).toMatch(/^n3 +Healthy/m);
    expect(seen.isClosed).toBe(true);
  });

  test('restores the terminal when drawing fails', async () => {
    const { seen, running } = start(() => {
      throw new Error('a fault');
    });
    await expect(running).rejects.toThrow('a fault');
    expect(seen.isClosed).toBe(true);
  });

  test('restores the terminal when it is interrupted', async () => {
    const reason = new Error('interrupted');
    const { seen, running, stopping } = start((text) => {
      if (text.includes('n3 ')) stopping.abort(reason);
    });
    await expect(running).rejects.toBe(reason);
    expect(seen.isClosed).toBe(true);
  });

  test('empties the list of nodes once the cluster refuses it', async () => {
    const { running } = start((text, press) => {
      if (text.includes('n3 ')) {
        cluster.refused.add('watchNodes');
        cluster.refused.add('getClusterInfo');
      }
      if (text.includes('● refused')) {
        expect(text).not.toMatch(/^n\d /m);
        press('q');
      }
    });
    await running;
  });

  test('refuses to run without a terminal', async () => {
    const context = { ...cluster.harness.owner, host: new RecordingHost() };
    await expect(runDashboard(context, {})).rejects.toMatchObject({ code: 'dashboard-no-terminal' });
  });
});
