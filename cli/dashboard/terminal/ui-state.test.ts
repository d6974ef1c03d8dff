import { describe, expect, test } from '@jest/globals';
import { fakeNode, fakeObservations, NOW_MS } from '../model/fake-observations.ts';
import { judge } from '../model/snapshot.ts';
import { press, START, type UiState } from './ui-state.ts';

const snapshot = judge(fakeObservations(20), NOW_MS);
const seen = { snapshot, pageRows: 10, logLines: 100 };
const after = (...keys: readonly string[]): UiState | 'quit' =>
  keys.reduce<UiState | 'quit'>((state, key) => (state === 'quit' ? state : press(state, key, seen)), START);
const idOf = (index: number): string => fakeNode(index).nodeId;

describe('press()', () => {
  test.each([
    { name: 'tab goes to the next view', keys: ['tab', 'tab'], want: { tab: 'Decisions' } },
    { name: 'back-tab goes to the view before', keys: ['back-tab'], want: { tab: 'Problems' } },
    { name: 'a digit names a view', keys: ['4'], want: { tab: 'Resources' } },
    { name: 'down selects the next node', keys: ['down', 'down'], want: { nodeId: idOf(2) } },
    { name: 'up stays at the first node', keys: ['up'], want: { nodeId: idOf(0) } },
    { name: 'page-down moves by a page', keys: ['page-down'], want: { nodeId: idOf(10) } },
    { name: 'end selects the last node', keys: ['end'], want: { nodeId: idOf(19) } },
    {
      name: 'enter opens the selected node',
      keys: ['down', 'enter'],
      want: { nodeId: idOf(1), isOpen: true },
    },
    {
      name: 'down selects a part of an open node',
      keys: ['enter', 'down'],
      want: { runnable: 'root.roleserve' },
    },
    { name: 'l shows the logs of the agent', keys: ['down', 'l'], want: { logs: { node: 'n2', path: '' } } },
    {
      name: 'l shows the logs of the selected part of an open node',
      keys: ['enter', 'down', 'l'],
      want: { logs: { node: 'n1', path: 'root.roleserve' } },
    },
    { name: 'up in logs scrolls back', keys: ['l', 'up', 'page-up'], want: { logsBack: 11 } },
    { name: 'f in logs follows again', keys: ['l', 'page-up', 'f'], want: { logsBack: 0 } },
    {
      name: 'escape leaves logs, then the node',
      keys: ['enter', 'l', 'escape'],
      want: { isOpen: true, logs: undefined },
    },
    { name: 'down in certificates moves a row', keys: ['2', 'down'], want: { rows: { Certificates: 1 } } },
    { name: 'any key leaves the help', keys: ['?', 'x'], want: { isHelp: false } },
  ])('$name', ({ keys, want }) => {
    expect(after(...keys)).toMatchObject(want);
  });

  test.each(['q', 'interrupt'])('%s quits, also from logs', (key) => {
    expect(after('l', key)).toBe('quit');
  });
});
