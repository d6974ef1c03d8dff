import { describe, expect, test } from '@jest/globals';
import { SystemClock } from '../clock/index.ts';
import { processMetrics, readPage, renderMetrics, serveMetrics } from './index.ts';

const clock = new SystemClock();

describe('renderMetrics()', () => {
  test("writes Prometheus' text format and escapes labels", () => {
    const samples = [
      { labels: { path: 'a"b\\c\nd', state: 'new' }, value: 1.5 },
      { labels: {}, value: 2 },
    ];
    expect(renderMetrics([{ name: 'x_total', help: 'all\nof them', kind: 'counter', samples }])).toBe(
      '# HELP x_total all\\nof them\n# TYPE x_total counter\nx_total{path="a\\"b\\\\c\\nd",state="new"} 1.5\nx_total 2\n',
    );
  });

  test('leaves out values that are not finite, and families without samples', () => {
    expect(renderMetrics([{ name: 'none', help: 'h', kind: 'gauge', samples: [] }])).toBe('');
    const samples = [{ value: Number.NaN }, { value: 3 }];
    expect(renderMetrics([{ name: 'x', help: 'h', kind: 'gauge', samples }])).toMatch(
      /^# HELP.*\n# TYPE.*\nx 3\n$/,
    );
  });
});

describe('serveMetrics()', () => {
  test('serves only /metrics, on the loopback, until its signal fires', async () => {
    const stop = new AbortController();
    const listening = Promise.withResolvers<number>();
    const usage = { uptimeSeconds: 1, residentBytes: 2, heapBytes: 3, cpuMicroseconds: 4e6 };
    const render = () => renderMetrics(processMetrics({ program: 'p', version: '1' }, usage));
    const serving = serveMetrics({ port: 0, render, onListening: listening.resolve }, stop.signal);
    const ended = expect(serving).rejects.toThrow('enough');
    const base = `http://127.0.0.1:${await listening.promise}`;
    const never = new AbortController().signal;
    expect(await readPage(`${base}/metrics`, { clock, signal: never })).toEqual({
      ok: true,
      text: expect.stringContaining('cluster_program_cpu_seconds_total{program="p"} 4\n'),
    });
    expect(await readPage(`${base}/other`, { clock, signal: never })).toEqual({ ok: false, text: '' });
    stop.abort(new Error('enough'));
    await ended;
    expect(await readPage(`${base}/metrics`, { clock, signal: never })).toBeUndefined();
  });
});
