import { create } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { records } from '../../../internal/records/index.ts';
import { Curator as CuratorContract } from '../../curatorproto/gen/curator_pb.js';
import { as, curatorsOfTests, mutation, nodeIdOf } from '../fake-curators.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const createCurators = curatorsOfTests(afterEach);

describe('taints of nodes', () => {
  const gpu = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };
  const spot = { key: 'spot', value: '', effect: 'NoExecute' };

  test('updateNodeTaints() sets, replaces and removes taints, and leaves no `taints` in the record when it removes the last taint', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const nodeId = nodeIdOf(await cluster.addNode('n'));
    const taintsAfter = async (set: readonly (typeof gpu)[], remove: readonly (typeof gpu)[] = []) => {
      const lists = { set: [...set], remove: [...remove] };
      const request = { nodeId, ...lists, mutation: mutation() };
      const { node } = await curator.updateNodeTaints(
        create(CuratorContract.method.updateNodeTaints.input, request),
        as(owner),
      );
      return (node?.taints ?? []).map(({ key, value, effect }) => ({ key, value, effect }));
    };
    const other = { ...gpu, effect: 'NoExecute' };
    expect(await taintsAfter([spot, gpu])).toEqual([gpu, spot]);
    expect(await taintsAfter([{ ...gpu, value: 'cpu' }, other])).toEqual([
      other,
      { ...gpu, value: 'cpu' },
      spot,
    ]);
    expect(await taintsAfter([], [other])).toEqual([{ ...gpu, value: 'cpu' }, spot]);
    expect(await taintsAfter([other])).toHaveLength(3);
    expect(await taintsAfter([], [{ ...gpu, effect: '' }])).toEqual([spot]);
    await taintsAfter([], [spot]);
    const { record } = await records.node.read(etcd, records.node.key(nodeId), signal);
    expect(record).not.toHaveProperty('taints');
  });

  test.each([
    { name: 'a taint of Kubernetes', set: [{ ...gpu, key: 'node.kubernetes.io/not-ready' }], remove: [] },
    { name: 'an unknown effect', set: [{ ...gpu, effect: 'NoStart' }], remove: [] },
    {
      name: 'a request that both sets and removes the same taint',
      set: [gpu],
      remove: [{ ...gpu, effect: '' }],
    },
    {
      name: 'more than 32 taints',
      set: Array.from({ length: 33 }, (_, i) => ({ ...gpu, key: `t${i}` })),
      remove: [],
    },
  ])('updateNodeTaints() refuses $name', async ({ set, remove }) => {
    const { curator, cluster, owner } = await createCurators();
    const nodeId = nodeIdOf(await cluster.addNode('n'));
    const request = create(CuratorContract.method.updateNodeTaints.input, {
      ...{ nodeId, set, remove, mutation: mutation() },
    });
    await expect(curator.updateNodeTaints(request, as(owner))).rejects.toEqual(
      coded('curator-request-invalid'),
    );
  });
});
