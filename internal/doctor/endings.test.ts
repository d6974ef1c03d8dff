import { expect, test } from '@jest/globals';
import type { ClusterFacts } from './cluster-facts.ts';
import { endingsUntil } from './endings.ts';
import { fakeFacts, NOW_MS } from './fake-facts.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

test('endingsUntil() lists everything that expires, sorted by time, with the program or command that renews it', () => {
  const facts = fakeFacts({
    credentials: { certificateMs: NOW_MS + DAY_MS, kubeconfigMs: NOW_MS + 20 * DAY_MS },
    documents: {
      ok: true,
      value: [
        { kind: 'policy', endsMs: NOW_MS + 10 * DAY_MS },
        { kind: 'grant', endsMs: NOW_MS + 2 * DAY_MS },
        { kind: 'owners', endsMs: NOW_MS + 3000 * DAY_MS },
      ],
    },
    collateral: { ok: true, value: [{ what: 'CRL of AMD', expiresMs: NOW_MS + 15 * DAY_MS }] },
  });
  const { endings, unknown } = endingsUntil(facts, NOW_MS + 400 * DAY_MS);
  expect(unknown).toEqual([]);
  const nodes = endings.filter(({ subject }) => subject.startsWith('certificates of '));
  expect(nodes.map(({ renewsItself }) => renewsItself)).toEqual([true, true, true, true]);
  expect(
    endings
      .filter((each) => !nodes.includes(each))
      .map(({ subject, renewsItself }) => [subject, renewsItself]),
  ).toEqual([
    ['certificate of this workspace', true],
    ['document policy', false],
    ['CRL of AMD', false],
    ['kubeconfig of this workspace', false],
    ['schedule of backups', false],
  ]);
});

test('endingsUntil() lists a CA once, although each node reports it', () => {
  const { endings } = endingsUntil(fakeFacts(), NOW_MS + 4000 * DAY_MS);
  expect(endings.filter(({ subject }) => subject === 'CA /var/lib/cluster/ca/ca.crt')).toHaveLength(1);
});

test('endingsUntil() lists the parts that could not be read, with the reason', () => {
  const records: ClusterFacts['records'] = { ok: false, error: 'unreachable', codes: [] };
  const { unknown } = endingsUntil(fakeFacts({ records }), NOW_MS);
  expect(unknown).toEqual([{ subject: 'certificates of nodes', error: 'unreachable' }]);
});
