import { describe, expect, test } from '@jest/globals';
import { NodeHealth, Runnable_State } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { ScreenLine } from '../../host/index.ts';
import { fakeNode, fakeObservations, NOW_MS, observed } from '../model/fake-observations.ts';
import type { Observations } from '../model/observations.ts';
import { judge } from '../model/snapshot.ts';
import { widthOf } from './cells.ts';
import { START, type UiState } from './ui-state.ts';
import { view, type LogView } from './view.ts';

interface Drawn {
  readonly columns?: number;
  readonly rows?: number;
  readonly state?: Partial<UiState>;
  readonly logs?: LogView;
}

const textOf = (line: ScreenLine): string => line.map(({ text }) => text).join('');

function draw(seen: Observations, { columns = 80, rows = 24, state = {}, logs }: Drawn = {}) {
  const lines = view(judge(seen, NOW_MS), { columns, rows, state: { ...START, ...state }, logs });
  return lines.map((line) => textOf(line));
}

const HOSTILE = '\u001b[2J\u001b]0;x\u0007\r\n! all good\u202e <script>日本語日本語';
const silent = fakeNode(1, { health: NodeHealth.TIMEOUT });

describe('view()', () => {
  test('shows nodes with roles, phases and waits, quorum and both etcd clusters at 80 by 24', () => {
    const starting = fakeNode(3);
    starting.status!.runnables[2]!.state = Runnable_State.NEW;
    starting.status!.runnables[2]!.sinceMs = BigInt(NOW_MS - 5_000);
    const nodes = [observed(fakeNode(0)), observed(silent), observed(fakeNode(2)), observed(starting)];
    const text = draw(fakeObservations(4, { nodes: { value: nodes, readMs: NOW_MS } })).map((line) =>
      line.trimEnd(),
    );
    expect(text).toEqual([
      'prod  ● 2 problems  4 nodes                              ann (viewer)  12:00:00Z',
      ' 1 Nodes   2 Certificates   3 Decisions   4 Resources   5 Problems 2',
      'state etcd    3 members, has a leader, 2.9 MiB of 2.0 GiB',
      'kube etcd     3 members, has a leader, at most 11.4 MiB of 8.0 GiB',
      'quorum        2 of 3 voters needed, 2 healthy; tolerates no failures',
      '! etcd tolerates no further failure: 2 of 3 voters are healthy (1 more: view 5)',
      '',
      'NAME            STATUS         ROLES                 PHASE       WAITS FOR',
      'n1              Healthy        control-plane,worker  running     –',
      'n2              NotResponding  control-plane,worker  silent      a heartbeat of…',
      'n3              Healthy        control-plane,worker  running     –',
      'n4              Healthy        worker                starting    roleserve.kube…',
      ...Array.from({ length: 11 }, () => ''),
      'tab views  ↑↓ select  enter open  l logs  esc back  ? help  q quit',
    ]);
  });

  test('shows figures, problems, decisions and certificates beside the nodes at 200 by 50', () => {
    const text = draw(fakeObservations(200), { columns: 200, rows: 50 }).join('\n');
    for (const part of [
      '25%',
      '40%',
      'v1.37.2',
      'Recent decisions',
      'DecideJoin',
      'Certificates',
      'No problems',
    ])
      expect(text).toContain(part);
  });

  test.each([
    { name: 'certificates', tab: 'Certificates', want: /n1 +credentials\/node.crt +in 4d +─+◆/ },
    { name: 'decisions', tab: 'Decisions', want: /5m +operator:ann +DecideJoin +n5 +decision=approve/ },
    { name: 'resources', tab: 'Resources', want: /n1 + 25% █░+ +25% █░+ +8.0 GiB +40% █+░+/ },
    { name: 'problems', tab: 'Problems', want: /No problems/ },
  ] as const)('shows $name at 80 by 24', ({ tab, want }) => {
    expect(draw(fakeObservations(5), { state: { tab } }).join('\n')).toMatch(want);
  });

  test.each([
    [80, 24],
    [200, 50],
    [40, 8],
    [150, 30],
    [20, 5],
  ])('fills exactly %d by %d cells in every view, with texts of attackers', (columns, rows) => {
    const evil = fakeNode(3, { name: HOSTILE });
    evil.status!.address = HOSTILE;
    evil.status!.runnables[1]!.idleBecause = HOSTILE;
    evil.status!.runnables[1]!.state = Runnable_State.DEAD;
    const seen = fakeObservations(4, { nodes: { value: [observed(evil)], readMs: NOW_MS } });
    const logs = { lines: [HOSTILE], error: HOSTILE };
    const states: Partial<UiState>[] = [
      ...(['Nodes', 'Certificates', 'Decisions', 'Resources', 'Problems'] as const).map((tab) => ({ tab })),
      { isOpen: true },
      { logs: { node: HOSTILE, path: HOSTILE } },
      { isHelp: true },
    ];
    for (const state of states) {
      const lines = draw(seen, { columns, rows, state, logs });
      expect(lines.map(widthOf)).toEqual(Array.from({ length: rows }, () => columns));
      expect(lines.join('')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    }
  });

  test('draws 200 nodes at 80 by 24 in less than the time of a frame', () => {
    const seen = fakeObservations(200);
    // The fastest of many: other programs may use the machine during the others.
    const times = Array.from({ length: 50 }, () => {
      const started = performance.now();
      draw(seen);
      return performance.now() - started;
    });
    expect(Math.min(...times)).toBeLessThan(40);
  });

  test('keeps the selected node in sight among 200', () => {
    const { nodeId } = fakeNode(150);
    expect(draw(fakeObservations(200), { state: { nodeId } }).join('\n')).toMatch(/^n151 /m);
  });

  test('shows the parts of an open node and what each waits for', () => {
    const node = fakeNode(3);
    Object.assign(node.status!.runnables[2]!, { state: Runnable_State.NEW, idleBecause: 'the components' });
    const seen = fakeObservations(4, { nodes: { value: [observed(node)], readMs: NOW_MS } });
    expect(draw(seen, { state: { isOpen: true } }).join('\n')).toMatch(
      /kubernetes +idle +1h +the components/,
    );
  });

  test('ends log lines at the newest one, or where the user scrolled to', () => {
    const logs = { lines: Array.from({ length: 100 }, (_, index) => `line ${index}`), error: undefined };
    const at = (logsBack: number): string =>
      draw(fakeObservations(1), { state: { logs: { node: 'n1', path: '' }, logsBack }, logs })
        .at(-2)!
        .trim();
    expect(at(0)).toBe('line 99');
    expect(at(10)).toBe('line 89');
  });

  test('names a source that fails, its error, and how old its data are', () => {
    const seen = fakeObservations(2);
    const failure = { text: 'timed out', sinceMs: NOW_MS - 30_000, isRefused: false };
    const stale = { ...seen, nodes: { ...seen.nodes, readMs: NOW_MS - 40_000, failure } };
    const lines = draw(stale);
    expect(lines[0]).toContain('not reached: old data');
    expect(lines.at(-1)).toContain('nodes: failing for 30s, data of 40s ago: timed out');
  });

  test('draws 200 nodes in less than twenty times the time of 5 nodes', () => {
    const [few, many] = [fakeObservations(5), fakeObservations(200)];
    /** The shortest of several: this machine also does other work. */
    const timed = (seen: Observations): number =>
      Math.min(
        ...Array.from({ length: 30 }, () => {
          const startMs = performance.now();
          draw(seen, { columns: 200, rows: 50 });
          return performance.now() - startMs;
        }),
      );
    timed(few);
    timed(many);
    expect(timed(many)).toBeLessThan(20 * timed(few));
  });
});
