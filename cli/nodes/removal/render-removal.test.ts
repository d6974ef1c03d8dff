import { describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../../host/fake-host.ts';
import { nextForMachine, renderRemovalResult } from './render-removal.ts';

const proofs = [
  { what: 'credentials test: API server on n1', ok: true, actual: 'node refused (HTTP 401)' },
  { what: 'credentials test: kubelet on n2', ok: true, actual: 'node refused (HTTP 401)' },
  { what: 'credentials test: n3', ok: true, actual: 'not responding, not tested', isTested: false } as const,
];

function render(isWide: boolean): string {
  const host = Object.assign(new RecordingHost(), { isWide });
  const keys = { outcome: undefined, held: undefined } as never;
  return renderRemovalResult({ host } as never, { proofs, sharedKeys: [], keys }).join('\n');
}

describe('renderRemovalResult()', () => {
  test('counts the checks that passed, and lists what could not be tested', () => {
    expect(render(false)).toMatch(
      /^2 of 3 checks passed: [^\n]*\nCHECK +RESULT\ncredentials test: n3 +not responding/,
    );
  });

  test('with -o wide lists each check', () => {
    for (const { what } of proofs) expect(render(true)).toContain(what);
    expect(render(true)).not.toContain('checks passed');
  });
});

test('nextForMachine() of a reset says how to give labels and taints again', () => {
  const taint = { key: 'dedicated', value: 'batch', effect: 'NoSchedule' };
  const node = { name: 'n4', labels: { disk: 'ssd' }, taints: [taint] } as never;
  const next = (of: never) => nextForMachine(of, { isReset: true, isLost: false }).join('\n');
  expect(next(node)).toContain('`--label disk=ssd --taint dedicated=batch:NoSchedule`');
  expect(next({ name: 'n4', labels: {}, taints: [] } as never)).not.toContain('labels');
});
