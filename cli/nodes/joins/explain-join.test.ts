import { describe, expect, test } from '@jest/globals';
import { JoinState, TraceFact_Outcome } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { fixOfCode } from '../../app/explain.ts';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { runExplainJoin } from '../index.ts';

const { PASS, WARN, FAIL, WAIT } = TraceFact_Outcome;
const fact = (outcome: TraceFact_Outcome, side: string, name: string, more: object = {}) => {
  return { side, name, outcome, expected: 'this', actual: 'that', timeMs: 1n, ...more };
};
const joined = { joinId: 'node-1', state: JoinState.JOINED, decidedBy: 'operator:ann' };
const refused = { joinId: 'node-1', state: JoinState.REFUSED, code: 'join-refused', message: 'not ours' };

const table = [
  {
    name: 'a member, with all checks of its join',
    given: {
      nodeName: 'n2',
      join: joined,
      facts: [
        fact(PASS, 'machine', 'dns', { actual: 'endpoints are addresses' }),
        fact(FAIL, 'machine', 'path 192.0.2.9:9090', { code: 'rpc-unreachable', fix: 'Look.' }),
        fact(WARN, 'machine', 'proxy', { expected: 'none', actual: 'https_proxy=http://p', fix: 'Go past.' }),
        fact(PASS, 'cluster', 'evidence'),
        fact(WAIT, 'cluster', 'policy', { code: 'join-awaiting-approval', fix: 'Approve it.' }),
        fact(PASS, 'cluster', 'slot', { actual: 'not applicable' }),
      ],
    },
    want: {
      exit: 'ok',
      lines: [
        'n2: joined by operator:ann',
        '  ✓ machine  dns            endpoints are addresses',
        '  ✗ machine  path 192.0.2.9:9090 expected this, found that',
        '      code  rpc-unreachable',
        '      fix   Look.',
        '  ! machine  proxy          expected none, found https_proxy=http://p',
        '      fix   Go past.',
        '  ✓ cluster  evidence       that',
        '  ✓ cluster  slot           not applicable',
      ],
    },
  },
  {
    name: 'the first machine, which never asked to join',
    given: { nodeName: 'n1', facts: [] },
    want: {
      exit: 'ok',
      lines: ['n1: the first node: `cluster init` created the cluster on it, so it never asked to join'],
    },
  },
  {
    name: 'the ID of the machine in a fix that names none',
    given: {
      joinId: 'node-1',
      join: { ...joined, state: JoinState.PENDING, decidedBy: '' },
      facts: [fact(WAIT, 'cluster', 'policy', { fix: 'Compare, then run `cluster node approve MACHINE`.' })],
    },
    want: {
      exit: 'ok',
      lines: [
        'subject: pending',
        '  … cluster  policy         expected this, found that',
        '      fix   Compare, then run `cluster node approve node-1`.',
      ],
    },
  },
  {
    name: 'a machine that was approved, and waits for an owner since',
    given: {
      nodeName: '',
      join: { ...joined, state: JoinState.APPROVED, decidedMs: 5n },
      facts: [
        fact(WAIT, 'cluster', 'policy', { code: 'join-awaiting-approval', fix: 'Approve it.', timeMs: 5n }),
        fact(WAIT, 'cluster', 'owner', { code: 'join-awaiting-owner', fix: 'Sign it.', timeMs: 6n }),
      ],
    },
    want: {
      exit: 'ok',
      lines: [
        'subject: approved by operator:ann',
        '  … cluster  owner          expected this, found that',
        '      code  join-awaiting-owner',
        '      fix   Sign it.',
      ],
    },
  },
  {
    name: 'a machine that was refused',
    given: {
      join: refused,
      facts: [fact(FAIL, 'cluster', 'policy', { code: 'join-refused', fix: 'Ask them.' })],
    },
    want: {
      exit: 'unhealthy',
      lines: [
        'subject: refused: join-refused not ours',
        '  ✗ cluster  policy         expected this, found that',
        '      code  join-refused',
        '      fix   Ask them.',
      ],
    },
  },
  {
    name: 'a machine whose evidence was refused, with the fix of its code',
    given: {
      joinId: '',
      facts: [
        fact(FAIL, 'cluster', 'evidence', { code: 'attestation-register-mismatch', actual: 'ab (3 times)' }),
      ],
    },
    want: {
      exit: 'unhealthy',
      lines: [
        'subject: failed at evidence: attestation-register-mismatch',
        '  ✗ cluster  evidence       expected this, found ab (3 times)',
        '      code  attestation-register-mismatch',
        `      fix   ${fixOfCode('attestation-register-mismatch')}`,
      ],
    },
  },
  {
    name: 'a control plane that waits while another one joins',
    given: {
      nodeName: 'n3',
      join: joined,
      facts: [fact(WAIT, 'cluster', 'slot', { actual: 'place 2, about 30 s', fix: 'Nothing.' })],
    },
    want: {
      exit: 'ok',
      lines: [
        'n3: joined by operator:ann',
        '  … cluster  slot           expected this, found place 2, about 30 s',
        '      fix   Nothing.',
      ],
    },
  },
  {
    name: 'text of a machine without control characters',
    given: { nodeName: 'n2', join: joined, facts: [fact(PASS, 'machine', 'dns', { actual: 'a\u001b[2Jb' })] },
    want: { exit: 'ok', lines: ['n2: joined by operator:ann', expect.not.stringContaining('\u001b')] },
  },
];

describe('cluster explain', () => {
  test.each(table)('shows the checks by the machine and by the cluster: $name', async ({ given, want }) => {
    await using harness = await createCuratorHarness({}, { getTrace: async () => given });
    expect(await runExplainJoin(harness.owner, 'subject')).toBe(want.exit);
    const [shown] = harness.owner.host.records.flatMap((each) => (each.kind === 'result' ? [each.text] : []));
    const withoutAges = shown?.replace(/  \S+ ago$/gm, '');
    expect(withoutAges?.split('\n')).toEqual(want.lines);
  });

  test('sorts the checks by the time at which the machine or the cluster made them', async () => {
    const facts = [3n, 1n, 2n].map((timeMs) => fact(PASS, 'machine', `${timeMs}`, { timeMs }));
    await using harness = await createCuratorHarness(
      {},
      { getTrace: async () => ({ nodeName: 'n2', facts }) },
    );
    await runExplainJoin(harness.owner, 'n2');
    expect(harness.owner.host.answered).toMatchObject({
      facts: [{ name: '1' }, { name: '2' }, { name: '3' }],
    });
  });
});

test('runExplainJoin() with --html writes the trace as a page, with texts of machines as text', async () => {
  const evil = '<script>alert(1)</script>';
  await using harness = await createCuratorHarness(
    {},
    {
      getTrace: async () => ({
        nodeName: 'n2',
        join: { ...joined, message: evil },
        facts: [
          fact(PASS, 'machine', 'dns', { actual: evil }),
          fact(FAIL, 'cluster', 'policy', { code: evil, fix: 'Ask them.', timeMs: 90_000n }),
        ],
      }),
    },
  );
  const { host } = harness.owner;
  await harness.files.makeDirectory('.');
  await runExplainJoin(harness.owner, 'n2', { html: true });
  await runExplainJoin(harness.owner, 'n2', { html: '/owner/trace.html' });
  expect(host.answered).toMatchObject({ path: 'explain-n2.html', nodeName: 'n2' });
  const page = Buffer.from((await harness.files.read('/owner/trace.html', 1_000_000))!).toString('utf8');
  expect(page).toContain('joined by operator:ann');
  expect(page).toContain('+1m30s');
  expect(page).not.toContain(evil);
  await harness.files.writeAtomic('/owner/trace.html', page.replace('+1m30s', 'earlier'));
  await runExplainJoin(harness.owner, 'n2', { html: '/owner/trace.html' });
  const again = Buffer.from((await harness.files.read('/owner/trace.html', 1_000_000))!).toString('utf8');
  expect(again).toContain('+1m30s');
});
