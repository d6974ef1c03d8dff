import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { currentValue, EventValue } from '../../internal/event/index.ts';
import type { KnownMachine } from '../../internal/records/index.ts';
import { FakeClock, MemoryFiles, superviseForTest } from '../../internal/testing/index.ts';
import { reportedError } from '../../internal/rpc/index.ts';
import {
  FetchRemovalsResponseSchema,
  ReportRemovalsResponseSchema,
} from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { ChecksummedFile, type Membership } from '../membership/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import { removedMachinesWorker } from './removed-machines-worker.ts';
import type { SavedRemovals } from './saved-removals.ts';

const FILE = '/state/removals.json';
const machine = (digit: string): KnownMachine => ({
  identity: `tpm-ek:${digit.repeat(64)}`,
  nodeId: `node-${digit.repeat(32)}`,
  name: `n${digit}`,
});
const hashOf = (text: string): string => Buffer.from(text).toString('hex').padStart(64, '0');
/** Longer than the time in which nodes fetch the list. */
const FETCHED_MS = 11_000;

/** A node with its disk, and the curator that it asks. */
class TestNode implements Curators {
  readonly files = new MemoryFiles();
  readonly saved = new ChecksummedFile<SavedRemovals>(this.files, FILE);
  readonly clock = new FakeClock();
  readonly values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterRemovals: new EventValue<string | undefined>(),
    unmergedRemovals: new EventValue<readonly KnownMachine[] | undefined>(),
  };
  /** What the worker did, in order. */
  readonly calls: string[] = [];
  epoch = 1n;
  listed: readonly KnownMachine[] = [];
  unmerged: readonly KnownMachine[] = [];
  onReport: () => void = () => undefined;
  sha256: string | undefined;

  constructor() {
    this.values.clusterMembership.set(membership);
    this.values.clusterRemovals.set(undefined);
  }

  live() {
    const { values, clock, saved } = this;
    const save = async (list: SavedRemovals): Promise<void> => {
      this.calls.push('save');
      await saved.save(list);
    };
    const worker = removedMachinesWorker({
      ...{ reads: values, writes: values, curators: this, clock, random: () => 0.5 },
      saved: { load: () => saved.load(), save },
    });
    return superviseForTest(worker, { clock });
  }

  /** The cluster refuses these machines from now on, and the curators say so. */
  async announce(machines: readonly KnownMachine[], epoch = this.epoch): Promise<void> {
    this.epoch = epoch;
    this.listed = machines;
    this.values.clusterRemovals.set(this.#hash());
    await this.clock.advance(FETCHED_MS);
  }

  #hash(): string {
    return this.sha256 ?? hashOf(`${this.epoch}${this.listed.map(({ name }) => name).join('')}`.slice(0, 30));
  }

  use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<T> {
    const fetchRemovals = async () => {
      this.calls.push('fetch');
      const machines = this.listed.map((each) => ({ ...each }));
      return create(FetchRemovalsResponseSchema, { epoch: this.epoch, sha256: this.#hash(), machines });
    };
    const reportRemovals = async ({ machines }: { readonly machines: readonly KnownMachine[] }) => {
      this.calls.push(`report ${machines.map(({ name }) => name).join()}`);
      this.onReport();
      const unmerged = this.unmerged.map((each) => ({ ...each }));
      return create(ReportRemovalsResponseSchema, { unmerged });
    };
    const calls = { fetchRemovals, reportRemovals };
    return work({ endpoint: 'c', of: () => calls } as unknown as CuratorConnection, signal);
  }

  /** The problems that the status names. */
  names(): readonly string[] {
    return (currentValue(this.values.unmergedRemovals) ?? []).map(({ name }) => name);
  }
}

describe('the removed machines worker', () => {
  test('keeps the list of the cluster, and fetches it again only when its hash changes', async () => {
    const node = new TestNode();
    {
      await using _tree = node.live();
      await node.announce([machine('1')]);
      await node.announce([machine('1')]);
      await node.announce([machine('2'), machine('1')]);
      expect(node.calls).toEqual(['fetch', 'save', 'fetch', 'save']);
    }
    const stored = await node.saved.load();
    expect(stored).toMatchObject({ clusterId: membership.clusterId, epoch: 1, unmerged: [] });
    expect(stored?.machines).toEqual([machine('2'), machine('1')]);
    await using _again = node.live();
    await node.announce([machine('2'), machine('1')]);
    expect(node.calls).toHaveLength(4);
  });

  test('fetches nothing from curators of earlier versions, which send no hash', async () => {
    const node = new TestNode();
    await using tree = node.live();
    node.values.clusterRemovals.set('');
    await node.clock.advance(3_600_000);
    expect(node.calls).toEqual([]);
    expect(tree.records.filter(({ level }) => level === 'warn')).toEqual([]);
  });

  test('reports to a restored cluster what its list lacks, before it replaces its own list', async () => {
    const node = new TestNode();
    await using _tree = node.live();
    await node.announce([machine('1'), machine('2')]);
    await node.announce([machine('2'), machine('3')], 2n);
    expect(node.calls).toEqual(['fetch', 'save', 'fetch', 'report n1', 'save']);
    expect(await node.saved.load()).toMatchObject({ epoch: 2, machines: [machine('2'), machine('3')] });
    await node.announce([machine('1'), machine('2'), machine('3')]);
    expect(node.calls.slice(5)).toEqual(['fetch', 'save']);
  });

  test('reports nothing when a machine was readmitted in the same epoch', async () => {
    const node = new TestNode();
    await using _tree = node.live();
    await node.announce([machine('1'), machine('2')]);
    await node.announce([machine('2')]);
    expect(node.calls).toEqual(['fetch', 'save', 'fetch', 'save']);
  });

  test('repeats its report after a restart if it was interrupted before the list was replaced', async () => {
    const node = new TestNode();
    {
      await using _tree = node.live();
      await node.announce([machine('1')]);
      node.onReport = () => {
        throw new Error('killed');
      };
      await node.announce([], 2n);
    }
    expect(await node.saved.load()).toMatchObject({ epoch: 1, machines: [machine('1')] });
    node.onReport = () => undefined;
    node.calls.length = 0;
    await using _again = node.live();
    await node.clock.advance(FETCHED_MS);
    expect(node.calls).toEqual(['fetch', 'report n1', 'save']);
    expect(await node.saved.load()).toMatchObject({ epoch: 2, machines: [] });
  });

  test('remembers members that it knows as removed, also after a restart, until they are members no more', async () => {
    const node = new TestNode();
    {
      await using _tree = node.live();
      await node.announce([machine('1')]);
      node.unmerged = [machine('1')];
      await node.announce([], 2n);
      expect(node.names()).toEqual(['n1']);
    }
    await using _again = node.live();
    await node.clock.advance(FETCHED_MS);
    expect(node.names()).toEqual(['n1']);
    await node.announce([machine('4')]);
    expect(node.names()).toEqual(['n1']);
    node.unmerged = [];
    await node.announce([machine('5'), machine('4')]);
    expect(node.names()).toEqual([]);
    expect(node.calls.filter((call) => call.startsWith('report'))).toEqual([
      'report n1',
      'report n1',
      'report n1',
    ]);
  });

  test('drops a member that is in the list of the cluster, without another report', async () => {
    const node = new TestNode();
    await using _tree = node.live();
    await node.announce([machine('1')]);
    node.unmerged = [machine('1')];
    await node.announce([], 2n);
    await node.announce([machine('1')]);
    expect(node.names()).toEqual([]);
    expect(node.calls.filter((call) => call.startsWith('report'))).toHaveLength(1);
  });

  test('takes the new list if the cluster takes no report from it', async () => {
    const node = new TestNode();
    await using tree = node.live();
    await node.announce([machine('1')]);
    node.onReport = () => {
      throw reportedError('removedmachines-not-kept', 'no restore has kept it');
    };
    await node.announce([machine('2')], 2n);
    expect(await node.saved.load()).toMatchObject({ epoch: 2, machines: [machine('2')], unmerged: [] });
    expect(tree.records.filter(({ level }) => level === 'warn')).toEqual([]);
  });

  test('asks ever more rarely while curators fail, and logs that once', async () => {
    const node = new TestNode();
    await using tree = node.live();
    await node.announce([machine('1')]);
    node.onReport = () => {
      throw new Error('not served');
    };
    await node.announce([], 2n);
    await node.clock.advance(3_600_000);
    expect(node.calls.length).toBeLessThan(30);
    expect(tree.records.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  test.each([
    { name: 'of an earlier epoch', machines: [machine('2')], epoch: 1n },
    { name: 'with a machine of another shape', machines: [{ ...machine('2'), name: '../x' }], epoch: 3n },
    { name: 'with too many machines', machines: Array<KnownMachine>(4_097).fill(machine('2')), epoch: 3n },
    { name: 'without a hash', machines: [machine('2')], epoch: 3n, sha256: 'x' },
  ])('keeps its list when a curator sends one $name', async ({ machines, epoch, sha256 }) => {
    const node = new TestNode();
    await using tree = node.live();
    await node.announce([machine('1')], 2n);
    node.sha256 = sha256;
    await node.announce(machines, epoch);
    expect(await node.saved.load()).toMatchObject({ epoch: 2, machines: [machine('1')] });
    expect(node.calls.some((call) => call.startsWith('report'))).toBe(false);
    expect(tree.records.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  test.each([
    { name: 'damaged', text: '{', value: {} },
    { name: 'of another shape', value: { clusterId: membership.clusterId, epoch: 1, machines: ['x'] } },
    {
      name: 'of another cluster',
      value: { clusterId: 'other', epoch: 1, sha256: '', machines: [machine('1')], unmerged: [] },
    },
  ])('reports nothing from a list on disk that is $name', async ({ text, value }) => {
    const node = new TestNode();
    await node.saved.save(value as unknown as SavedRemovals);
    if (text !== undefined) await node.files.writeAtomic(FILE, text);
    await using _tree = node.live();
    await node.announce([machine('2')], 2n);
    expect(node.calls).toEqual(['fetch', 'save']);
    expect(await node.saved.load()).toMatchObject({ epoch: 2, machines: [machine('2')] });
  });
});
