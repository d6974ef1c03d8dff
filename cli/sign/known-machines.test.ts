import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import type { RemovedMachine } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { addPinnedMachines, readKnownMachines, saveRemovedMachines } from './known-machines.ts';

const CLUSTER = { directory: '/w', clusterId: 'c0ffee' };
const tpm = (digit: string): string => `tpm-ek:${digit.repeat(64)}`;

function machine(name: string, digit: string) {
  return { identity: tpm(digit), nodeId: `node-${digit.repeat(32)}`, name };
}

/** As a curator reports it. */
function removed(name: string, digit: string, over: Partial<RemovedMachine> = {}): RemovedMachine {
  const about = { removal: 1, removedMs: 1n, removedBy: 'operator:ann', readmitted: false };
  return { ...machine(name, digit), ...about, ...over } as RemovedMachine;
}

describe('the machines that a workspace knows', () => {
  test('are those that the cluster refuses, without those that an owner has readmitted', async () => {
    const files = new MemoryFiles();
    await saveRemovedMachines(files, CLUSTER, [removed('n5', '5'), removed('n6', '6', { readmitted: true })]);
    expect(await readKnownMachines(files, CLUSTER)).toEqual([machine('n5', '5')]);
    await saveRemovedMachines(files, CLUSTER, [removed('n5', '5', { readmitted: true })]);
    expect(await readKnownMachines(files, CLUSTER)).toEqual([]);
  });

  test('stay known when a curator does not name them any more', async () => {
    const files = new MemoryFiles();
    await saveRemovedMachines(files, CLUSTER, [removed('n5', '5')]);
    await saveRemovedMachines(files, CLUSTER, [removed('n6', '6')]);
    const known = [machine('n5', '5'), machine('n6', '6')];
    expect(await readKnownMachines(files, CLUSTER)).toEqual(known);
  });

  test('are those of its own cluster only', async () => {
    const files = new MemoryFiles();
    await saveRemovedMachines(files, CLUSTER, [removed('n5', '5')]);
    expect(await readKnownMachines(files, { ...CLUSTER, clusterId: 'other' })).toEqual([]);
  });

  test('do not include what no agent would accept', async () => {
    const files = new MemoryFiles();
    const hostile = [
      removed('n5\nn6', '5'),
      removed('n6', '6', { identity: '../x' }),
      removed('n7', '7', { nodeId: 'n7' }),
    ];
    await saveRemovedMachines(files, CLUSTER, [...hostile, removed('n8', '8')]);
    expect(await readKnownMachines(files, CLUSTER)).toEqual([machine('n8', '8')]);
  });

  test('are none where the file is damaged', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/w');
    await files.writeAtomic('/w/removed-machines.json', '{');
    expect(await readKnownMachines(files, CLUSTER)).toEqual([]);
  });

  test('include the verified and approved ones of this cluster, but no identity that machines share', async () => {
    const files = new MemoryFiles();
    await saveRemovedMachines(files, CLUSTER, [removed('n5', '5'), removed('n6', '6')]);
    const pins = [
      { ...machine('n6', '6'), clusterId: CLUSTER.clusterId },
      { ...machine('n7', '7'), clusterId: CLUSTER.clusterId },
      { ...machine('n8', '8'), clusterId: 'other' },
      { ...machine('n9', '9'), clusterId: CLUSTER.clusterId, identity: `snp-chip:${'9'.repeat(64)}` },
      { name: 'n4', clusterId: CLUSTER.clusterId },
    ];
    await files.makeDirectory('/w/machines');
    for (const pin of pins) await files.writeAtomic(`/w/machines/${pin.name}.json`, JSON.stringify(pin));
    await files.writeAtomic('/w/machines/damaged.json', '{');
    await addPinnedMachines(files, CLUSTER, { machines: '/w/machines' });
    expect(await readKnownMachines(files, CLUSTER)).toEqual([
      machine('n5', '5'),
      machine('n6', '6'),
      machine('n7', '7'),
    ]);
  });
});
