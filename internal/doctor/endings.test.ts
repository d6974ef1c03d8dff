import { expect, test } from '@jest/globals';
import type { ClusterFacts } from './cluster-facts.ts';
import { diagnose } from './diagnose.ts';
import { endingsUntil } from './endings.ts';
import { factsOfMachine, fakeFacts, NOW_MS } from './fake-facts.ts';

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
    ['support of Kubernetes 1.37', false],
  ]);
});

test('endingsUntil() lists a CA once, although each node reports it', () => {
  const { endings } = endingsUntil(fakeFacts(), NOW_MS + 4000 * DAY_MS);
  expect(endings.filter(({ subject }) => subject === 'CA /var/lib/cluster/ca/ca.crt')).toHaveLength(1);
});

test('endingsUntil() lists the parts that could not be read, with the reason', () => {
  const records: ClusterFacts['records'] = { ok: false, error: 'unreachable', codes: [] };
  const { unknown } = endingsUntil(fakeFacts({ records }), NOW_MS);
  expect(unknown).toEqual(
    ['certificates of nodes', 'support of Kubernetes'].map((subject) => ({ subject, error: 'unreachable' })),
  );
});

test('endingsUntil() names the day on which the doctor says that the support of Kubernetes has ended', () => {
  const { endings } = endingsUntil(fakeFacts(), NOW_MS + 400 * DAY_MS);
  const endsMs = endings.find(({ subject }) => subject.startsWith('support of'))?.endsMs ?? 0;
  expect(new Date(endsMs).toISOString()).toBe('2027-10-29T00:00:00.000Z');
  const figures = [endsMs - 1, endsMs].map(
    (takenMs) =>
      diagnose(fakeFacts({ takenMs })).find(({ code }) => code === 'doctor-kubernetes-support')?.figure,
  );
  expect(figures).toEqual(['ends in 1ms', 'ended 0ms ago']);
});

test('endingsUntil() says that the end of the support of another version is not known', () => {
  const facts = fakeFacts();
  if (!facts.records.ok) throw new Error('no records');
  for (const node of facts.records.value.nodes) node.kubernetesVersion = 'v1.99.0';
  expect(endingsUntil(facts, NOW_MS).unknown).toEqual([
    { subject: 'support of Kubernetes v1.99.0', error: expect.anything() },
  ]);
});

test('endingsUntil() lists the certificates that a machine has on its disk', () => {
  const { endings, unknown } = endingsUntil(factsOfMachine(), NOW_MS + 4000 * DAY_MS);
  expect(endings.map(({ subject }) => subject)).toEqual([
    'certificates of n1',
    'CA /var/lib/cluster/ca/ca.crt',
  ]);
  expect(unknown.map(({ subject }) => subject)).toContain('owner documents');
});
