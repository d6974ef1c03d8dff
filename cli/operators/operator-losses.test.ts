import { describe, expect, test } from '@jest/globals';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { lossesOfPut } from './operator-losses.ts';
import { runOperatorKey } from './operator-identity.ts';
import { runOperatorAdd, type OperatorOptions } from './operators.ts';

describe('lossesOfPut()', () => {
  const ann = { name: 'ann', role: 'operator', fingerprint: 'sha256:old' };
  const bob = { name: 'bob', role: 'owner', fingerprint: 'sha256:bob' };
  const key = 'key sha256:old of ann: every curator refuses it';
  test.each([
    { name: 'a new operator', put: { ...ann, name: 'carol' }, losses: [] },
    { name: 'the same key and role', put: ann, losses: [] },
    { name: 'a higher role', put: { ...ann, role: 'owner' }, losses: [] },
    { name: 'a lower role', put: { ...ann, role: 'viewer' }, losses: ['role operator of ann: now viewer'] },
    { name: 'another key', put: { ...ann, fingerprint: 'sha256:new' }, losses: [key] },
    {
      name: 'another key and a lower role',
      put: { ...ann, fingerprint: 'sha256:new', role: 'viewer' },
      losses: [key, 'role operator of ann: now viewer'],
    },
    {
      name: 'a role that this program does not know',
      known: { ...ann, role: 'superuser' },
      put: { ...ann, role: 'owner' },
      losses: ['role superuser of ann: now owner'],
    },
  ])('names what an operator loses: $name', ({ known = ann, put, losses }) => {
    expect(lossesOfPut([bob, known], put)).toEqual(losses);
  });
});

/** A cluster that keeps its operators, and the requests of two keys of ann. */
async function createCluster() {
  const operators: { name: string; role: string; fingerprint: string }[] = [];
  const puts: string[] = [];
  const harness = await createCuratorHarness(
    {},
    {
      listOperators: async () => ({ operators }),
      putOperator: async ({ name, role }) => {
        puts.push(`${name} ${role}`);
        return { certificatePem: '', clusterCaPem: '' };
      },
    },
  );
  const keys = [];
  for (const directory of ['/ann', '/new']) {
    const context = contextOf(harness.files, directory);
    await runOperatorKey(context, 'ann', { request: undefined });
    keys.push((context.host.answered as { readonly fingerprint: string }).fingerprint);
  }
  operators.push({ name: 'ann', role: 'operator', fingerprint: keys[0] ?? '' });
  const add = async (options: Partial<OperatorOptions>, host = new RecordingHost()) => {
    const request = '/ann/ann.csr';
    await runOperatorAdd({ ...harness.owner, host }, 'ann', { request, role: 'operator', ...options });
    return host;
  };
  return { ...harness, puts, keys, add };
}

describe('operator add of a name that exists', () => {
  const changes = [
    {
      name: 'another key',
      change: { request: '/new/ann.csr' },
      put: 'ann operator',
      loss: /^key sha256:.* refuses it$/,
    },
    {
      name: 'a lower role',
      change: { role: 'viewer' },
      put: 'ann viewer',
      loss: /^role operator of ann: now viewer$/,
    },
  ];

  test.each(changes)(
    'is refused without a terminal unless --yes is given: $name',
    async ({ change, put, loss }) => {
      await using cluster = await createCluster();
      await expect(cluster.add(change)).rejects.toMatchObject({
        code: 'loss-not-confirmed',
        details: { losses: [expect.stringMatching(loss)] },
      });
      expect(cluster.puts).toEqual([]);
      await cluster.add({ ...change, yes: true });
      expect(cluster.puts).toEqual([put]);
    },
  );

  test.each(changes)('asks at a terminal, and goes on only after a yes: $name', async ({ change, put }) => {
    await using cluster = await createCluster();
    const no = new RecordingHost({ answer: () => false });
    await expect(cluster.add(change, no)).rejects.toMatchObject({ code: 'loss-declined' });
    expect(cluster.puts).toEqual([]);
    await cluster.add(change, new RecordingHost({ answer: () => true }));
    expect(cluster.puts).toEqual([put]);
  });

  test.each(changes)(
    'shows the loss with --dry-run and changes nothing, also with --yes: $name',
    async ({ change, loss }) => {
      await using cluster = await createCluster();
      const host = await cluster.add({ ...change, out: '/ann/ann.grant', dryRun: true, yes: true });
      expect(host.records).toMatchObject([
        {
          kind: 'result',
          text: expect.stringMatching(/Nothing was changed\.\nConsequences:\n {2}- /),
          data: { dryRun: true, losses: [expect.stringMatching(loss)] },
        },
      ]);
      expect([cluster.puts, await cluster.files.stat('/ann/ann.grant')]).toEqual([[], undefined]);
    },
  );

  test('asks nothing if key and role are the same, or the role is raised', async () => {
    await using cluster = await createCluster();
    for (const role of ['operator', 'owner']) {
      const { records } = await cluster.add({ role }, new RecordingHost({ answer: () => false }));
      expect(records.map(({ kind }) => kind)).toEqual(['result']);
    }
    expect(cluster.puts).toEqual(['ann operator', 'ann owner']);
    const dry = await cluster.add({ dryRun: true });
    expect(dry.answered).toEqual({
      ...{ name: 'ann', role: 'operator', fingerprint: cluster.keys[0], dryRun: true, losses: [] },
    });
  });
});
