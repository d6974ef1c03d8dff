import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { inspect } from 'node:util';
import { EventValue } from '../../internal/event/index.ts';
import {
  encodeKeySet,
  CLUSTER_CA,
  createClusterCa,
  createEncryptionKey,
  createPairs,
  publicKeysOf,
  publicHalvesOf,
  formatStage,
  KEY_PHASES,
  ROTATION_FILE,
  SERVERS_CA,
  signedKeysOf,
  type RotatingPair,
  type KeyPhase,
  type KeySet,
  type KeyStage,
} from '../../internal/keyset/index.ts';
import { certificatesIn } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { records, type KeysRecord } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import { FakeClock, MemoryFiles, settle, superviseForTest, TestOwner } from '../../internal/testing/index.ts';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import { KeyStore } from './key-store.ts';
import {
  nodeKeysWorker,
  type CertificateIssuers,
  type KeyRotationDriver,
  type TrustedCas,
} from './node-keys-worker.ts';

const TEST_PATHS = {
  rotation: `/keys/${ROTATION_FILE}`,
  newKeys: '/keys/new.json',
  stage: '/keys/stage.json',
  lastKey: '/ca/ca.key',
};
const CONTROL_PLANE: readonly Role[] = ['ConsensusMember', 'KubernetesController'];

let set: KeySet;
let foreign: KeySet;
beforeAll(async () => {
  const create = async () => ({ ...(await createPairs(2, 1)), 'cluster-ca': await createClusterCa(2, 1) });
  const [previous, next, other] = [await create(), await create(), await create()];
  const encryption = {
    resources: ['secrets'] as const,
    previous: createEncryptionKey(1),
    next: createEncryptionKey(2),
    older: [],
  };
  set = { generation: 2, phase: 'trust', previous, next, encryption };
  foreign = { ...set, next: other };
});

/**
 * A node with its disk, which is kept when the worker restarts. The class is also the curator and the driver
 * of this worker.
 */
class TestNode implements Curators, KeyRotationDriver {
  readonly files = new MemoryFiles();
  readonly store = new KeyStore(this.files, TEST_PATHS);
  readonly clock = new FakeClock();
  readonly owner = new TestOwner({ clock: this.clock, clusterId: membership.clusterId });
  /** The owner documents that curators send together with the record. */
  documents: Uint8Array[] = [this.owner.sign('keys', signedKeysOf(publicKeysOf(set)))];
  readonly did: string[] = [];
  readonly values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterKeys: new EventValue<string | undefined>(),
    localRoles: new EventValue<ReadonlySet<Role> | undefined>(),
    localKeys: new EventValue<KeyStage | undefined>(),
  };
  record: KeysRecord | undefined;
  /** The operation that fails at its next call. */
  failing: string | undefined;
  wasOther = true;
  isOutdated = false;
  serversPem: string | undefined;

  constructor(roles: readonly Role[]) {
    this.values.clusterMembership.set(membership);
    this.values.clusterKeys.set(undefined);
    this.values.localRoles.set(new Set(roles));
    this.values.localKeys.set(undefined);
  }

  live() {
    const { values, store, clock } = this;
    const worker = nodeKeysWorker({
      reads: values,
      writes: values,
      curators: this,
      store,
      driver: this,
      clock,
      ownerKeys: [this.owner.pubKey],
    });
    return superviseForTest(worker, { clock });
  }

  async tell(phase: KeyPhase | 'asked', generation = 2, of = set): Promise<void> {
    const made = { by: 'node-a', ...publicHalvesOf(of) };
    const base = { version: 1, startedMs: 1, phaseSinceMs: 1, startedBy: 'x', reason: '' } as const;
    this.record = { ...base, generation, phase, ...(phase === 'asked' ? {} : { made }) };
    this.values.clusterKeys.set(phase === 'asked' ? '2/asked' : formatStage({ generation, phase }));
    await settle();
  }

  reached(): string {
    const now = this.values.localKeys.peek();
    return now.set && now.value !== undefined ? formatStage(now.value) : '';
  }

  use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<T> {
    const record = this.record === undefined ? new Uint8Array() : records.keys.encode(this.record);
    const fetchKeys = () => Promise.resolve({ record, ownerDocuments: this.documents });
    return work({ endpoint: 'c', of: () => ({ fetchKeys }) } as unknown as CuratorConnection, signal);
  }

  fetch = () => this.#do('fetch', set);
  /** For each activation, whether the disk had the previous encryption key. */
  readonly secretsAtActivation: boolean[] = [];
  activate = async () => {
    const { phase, encryption } = (await this.store.loadSet()) ?? {};
    this.secretsAtActivation.push(encryption?.previous.secret !== undefined);
    await this.#do(`enforce ${phase}`, undefined);
  };
  rewriteEncrypted = () => this.#do('rewrite', undefined);
  removeRetiredKeys = () => this.#do('forget', undefined);
  /** The cluster CAs that the node was told to trust, each with the step that the node had done before. */
  readonly trusted: (readonly [before: string | undefined, ...cas: string[]])[] = [];
  trustClusterCas = async (pem: string) => {
    this.trusted.push([this.did.at(-1), ...certificatesIn(pem)]);
  };
  issuers: CertificateIssuers | undefined;
  renewCertificates = (issuers: CertificateIssuers) => {
    this.issuers = issuers;
    return this.#do('renew', this.wasOther);
  };
  trustCas = ({ clientsPem, serversPem }: TrustedCas) => {
    this.serversPem = serversPem;
    return this.#do(`trust ${clientsPem.split('BEGIN').length - 1}`, undefined);
  };
  hasOutdatedServersCa = () => Promise.resolve(this.isOutdated);
  restartKubelet = () => this.#do('restart', undefined);

  async #do<T>(what: string, answer: T): Promise<T> {
    this.did.push(what);
    if (this.failing !== what) return answer;
    this.failing = undefined;
    throw new Error(`${what} fails`);
  }
}

let node: TestNode;
const rest = async (): Promise<void> => {
  for (let round = 0; round < 5; round++) await settle();
};

describe('the cluster CA', () => {
  const pemOf = (which: 'previous' | 'next'): string => set[which][CLUSTER_CA]?.public ?? '';
  const follow = async (): Promise<void> => {
    await using _life = node.live();
    for (const phase of KEY_PHASES) {
      await node.tell(phase);
      await rest();
      await node.clock.advance(120_000);
      await rest();
    }
    expect(node.reached()).toBe('2/done');
  };

  test('stays trusted together with the next CA from before a control plane issues certificates with the next CA until nothing uses the previous CA', async () => {
    node = new TestNode(CONTROL_PLANE);
    await follow();
    const [both, one] = [[pemOf('previous'), pemOf('next')], [pemOf('next')]];
    expect(node.trusted).toEqual([
      ['fetch', ...both],
      ['enforce trust', ...both],
      ['enforce issue', ...both],
      ['restart', ...one],
      ['enforce retire', ...one],
    ]);
  });

  test('changes on a worker too, which then gets a certificate from the next CA', async () => {
    node = new TestNode(['KubernetesWorker']);
    await follow();
    expect(node.trusted.map(([, ...cas]) => cas.length)).toEqual([2, 2, 2, 1, 1]);
    expect(node.issuers?.clusterCaPem).toBe(pemOf('next'));
  });

  test('stays unchanged in a rotation by an earlier version, which does not replace this CA', async () => {
    const { [CLUSTER_CA]: _previous, ...previous } = set.previous;
    const { [CLUSTER_CA]: _next, ...next } = set.next;
    const older: KeySet = { ...set, previous, next };
    node = new TestNode(['KubernetesWorker']);
    node.documents = [node.owner.sign('keys', signedKeysOf(publicKeysOf(older)))];
    await using _life = node.live();
    await node.tell('done', 2, older);
    await rest();
    expect([node.reached(), node.trusted, node.issuers?.clusterCaPem]).toEqual(['2/done', [], undefined]);
  });
});

describe('the key rotation worker on a control plane', () => {
  beforeEach(() => {
    node = new TestNode(CONTROL_PLANE);
  });

  test('receives the keys, runs each phase, and reports the finished stage', async () => {
    await using _life = node.live();
    await node.tell('asked');
    expect([node.did, node.reached()]).toEqual([[], '1/done']);
    for (const phase of ['distribute', 'trust', 'issue', 'refresh'] as const) {
      await node.tell(phase);
      await rest();
    }
    expect(node.reached()).toBe('2/issue'); // pods need time to read their new tokens
    await node.clock.advance(120_000);
    await rest();
    expect(node.reached()).toBe('2/refresh');
    for (const phase of ['retire', 'done'] as const) {
      await node.tell(phase);
      await rest();
    }
    expect([node.reached(), node.did]).toEqual([
      '2/done',
      [
        'fetch',
        ...['enforce trust', 'enforce issue'],
        ...['renew', 'enforce refresh', 'rewrite', 'restart'],
        ...['enforce retire', 'enforce done', 'forget'],
      ],
    ]);
  });

  test('restarts a kubelet that was started with other CAs of API servers, even if the node joined during the rotation', async () => {
    node.wasOther = false;
    node.isOutdated = true;
    await using _life = node.live();
    await node.tell('issue');
    await rest();
    await node.store.saveStage({ generation: 1, phase: 'done' });
    await node.tell('refresh');
    await rest();
    expect(node.did.filter((what) => what === 'restart')).toHaveLength(1);
  });

  test('replaces its own keys when the keys of another control plane are recorded', async () => {
    await node.store.saveSet(foreign);
    await using _life = node.live();
    await node.tell('distribute');
    await rest();
    expect(node.did).toEqual(['fetch']);
    expect((await node.store.loadSet())?.next['etcd-peers-ca'].public).toBe(set.next['etcd-peers-ca'].public);
  });

  test('does not complete the phase while objects are still encrypted with the previous key, and tries again', async () => {
    node.failing = 'rewrite';
    await using _life = node.live();
    for (const phase of ['distribute', 'trust', 'issue', 'refresh'] as const) {
      await node.tell(phase);
      await rest();
    }
    await node.clock.advance(5_000);
    await rest();
    expect(node.reached()).toBe('2/issue');
    expect(node.did.filter((what) => what === 'rewrite')).toHaveLength(2);
    expect((await node.store.loadSet())?.encryption?.previous.secret).toBeDefined();
  });

  test('deletes the previous encryption key in the last phase, before its signer gets the keys', async () => {
    await using _life = node.live();
    for (const phase of ['retire', 'done'] as const) {
      await node.tell(phase);
      await rest();
      const kept = (await node.store.loadSet())?.encryption;
      expect([kept?.previous.secret !== undefined, kept?.next]).toEqual([
        phase === 'retire',
        set.encryption?.next,
      ]);
    }
    expect(node.secretsAtActivation).toEqual([true, false]);
    expect(node.reached()).toBe('2/done'); // the owner's signature over the keys is still valid
  });

  test('activates no received key before the rotation reaches a phase that uses it', async () => {
    await using _life = node.live();
    await node.tell('distribute');
    await rest();
    expect((await node.store.loadSet())?.phase).toBe('distribute');
    expect(await node.store.isActivationPending()).toBe(false);
  });

  test('that lost its keys gets the active keys again', async () => {
    {
      await using _life = node.live();
      await node.tell('issue');
      await rest();
    }
    await node.files.remove(TEST_PATHS.rotation);
    node.did.length = 0;
    await using _next = node.live();
    await rest();
    expect([node.did, (await node.store.loadSet())?.phase]).toEqual([['fetch'], 'issue']);
  });

  test('completes a rotation if the agent ends at any step, and repeats that step', async () => {
    const run = async (step?: string): Promise<readonly string[]> => {
      node = new TestNode(CONTROL_PLANE);
      node.failing = step;
      for (const phase of KEY_PHASES) {
        // An agent that ends with an error starts again with what is on its disk.
        for (let life = 0; life < 2; life++) {
          await using _life = node.live();
          await node.tell(phase);
          await rest();
          await node.clock.advance(120_000);
          await rest();
        }
      }
      expect({ step, reached: node.reached() }).toEqual({ step, reached: '2/done' });
      return node.did;
    };
    const undisturbed = await run();
    expect(undisturbed.length).toBeGreaterThan(9);
    for (const step of new Set(undisturbed)) {
      const did = await run(step);
      expect(did.filter((each) => each === step).length).toBeGreaterThan(1);
      expect(undisturbed.filter((each) => !did.includes(each))).toEqual([]);
    }
  });

  test('saves a phase before it acts on it, and repeats the phase after a failure', async () => {
    node.failing = 'enforce trust';
    await using _life = node.live();
    await node.tell('trust');
    await rest();
    expect([(await node.store.loadSet())?.phase, node.reached()]).toEqual(['trust', '1/done']);
    expect(await node.store.isActivationPending()).toBe(true); // no restart before this node holds the membership slot
    await node.clock.advance(5_000);
    await rest();
    expect([node.did, node.reached()]).toEqual([['fetch', 'enforce trust', 'enforce trust'], '2/trust']);
    expect(await node.store.isActivationPending()).toBe(false);
  });
});

describe('the key rotation worker on a worker node', () => {
  beforeEach(() => {
    node = new TestNode(['KubernetesWorker']);
  });

  test('holds no key, and in each phase trusts the CAs and presents the certificate of that phase', async () => {
    await using _life = node.live();
    for (const phase of ['distribute', 'trust', 'issue', 'refresh'] as const) {
      await node.tell(phase);
      await rest();
    }
    await node.clock.advance(120_000);
    await rest();
    await node.tell('retire');
    await rest();
    expect([node.reached(), node.did]).toEqual([
      '2/retire',
      ['trust 2', 'trust 2', 'renew', 'trust 2', 'restart', 'trust 1'],
    ]);
    expect([await node.store.loadSet(), await node.store.holdsKeys()]).toEqual([undefined, false]);
  });

  test('trusts the next CA of API servers alone from phase `refresh` on, before its kubelet restarts', async () => {
    const ca = (pem: string): RotatingPair => ({ public: pem, private: new Secret('KEY') });
    const { previous, next } = set;
    const of = {
      ...set,
      previous: { ...previous, [SERVERS_CA]: ca('OLD') },
      next: { ...next, [SERVERS_CA]: ca('NEW') },
    };
    node.documents = [node.owner.sign('keys', signedKeysOf(publicKeysOf(of)))];
    await using _life = node.live();
    const seen: unknown[] = [];
    for (const phase of ['trust', 'issue', 'refresh'] as const) {
      await node.tell(phase, 2, of);
      await rest();
      seen.push(node.serversPem);
    }
    expect(seen).toEqual(['OLD\n', 'OLD\nNEW\n', 'NEW\n']);
    expect(node.did.slice(-2)).toEqual(['trust 2', 'restart']);
  });

  test('that was off renews its certificate first and waits for no tokens', async () => {
    await using _life = node.live();
    await node.tell('done');
    await rest();
    expect([node.reached(), node.did]).toEqual(['2/done', ['renew', 'trust 1', 'restart']]);
  });

  test('that joined later does not restart its kubelet', async () => {
    node.wasOther = false;
    await using _life = node.live();
    await node.tell('done');
    await rest();
    expect([node.reached(), node.did]).toEqual(['2/done', ['renew', 'trust 1']]);
  });

  test('resumes its phase after a restart of the agent', async () => {
    {
      await using _life = node.live();
      await node.tell('trust');
      await rest();
    }
    node.did.length = 0;
    await using _next = node.live();
    await rest();
    expect([node.reached(), node.did]).toEqual(['2/trust', []]);
  });
});

describe('a node refuses new keys', () => {
  const unsigned: readonly { name: string; documents: () => readonly Uint8Array[] }[] = [
    { name: 'that no owner has signed', documents: () => [] },
    {
      name: 'whose signature is by a key that belongs to no owner',
      documents: () => [
        new TestOwner({ clock: node.clock, clusterId: membership.clusterId }).sign(
          'keys',
          signedKeysOf(publicKeysOf(set)),
        ),
      ],
    },
    {
      name: 'that differ from those that an owner has signed',
      documents: () => [node.owner.sign('keys', signedKeysOf(publicKeysOf(foreign)))],
    },
    {
      name: 'whose previous keys differ from those that an owner has signed',
      documents: () => [
        node.owner.sign('keys', signedKeysOf(publicKeysOf({ ...set, previous: foreign.next }))),
      ],
    },
  ];
  for (const roles of [CONTROL_PLANE, ['KubernetesWorker'] as const])
    test.each(unsigned)(`$name (${roles[0]})`, async ({ documents }) => {
      node = new TestNode(roles);
      node.documents = [...documents()];
      await using life = node.live();
      await node.tell('trust');
      await rest();
      expect([node.did, node.reached(), await node.store.loadSet()]).toEqual([[], '1/done', undefined]);
      expect(inspect(life.records, { depth: 6 })).toContain('verifying the announced keys of generation 2');
      // After an owner signs the keys, the node continues by itself.
      node.documents = [node.owner.sign('keys', signedKeysOf(publicKeysOf(set)))];
      await node.clock.advance(120_000);
      await rest();
      expect(node.reached()).toBe('2/trust');
    });

  test('of an older generation than the one it uses', async () => {
    node = new TestNode(['KubernetesWorker']);
    await node.store.saveStage({ generation: 3, phase: 'done' });
    await using _life = node.live();
    await node.tell('trust');
    await rest();
    expect([node.did, node.reached()]).toEqual([[], '3/done']);
  });

  test('with a document that is older than the newest one it has accepted', async () => {
    node = new TestNode(['KubernetesWorker']);
    await node.store.saveFloors({ keys: { serial: 5 } });
    await using life = node.live();
    await node.tell('trust');
    await rest();
    expect([node.did, node.reached()]).toEqual([[], '1/done']);
    expect(inspect(life.records, { depth: 6 })).toContain('serial 1, serial 5 was accepted before');
  });

  test('as long as the file with the stage of its rotation is damaged', async () => {
    node = new TestNode(['KubernetesWorker']);
    await node.files.makeDirectory('/keys');
    await node.files.writeAtomic(TEST_PATHS.stage, '{"version":1,"gener');
    await using life = node.live();
    await node.tell('trust');
    await rest();
    expect([node.did, node.reached()]).toEqual([[], '']);
    expect(inspect(life.records, { depth: 6 })).toContain('reading /keys/stage.json');
  });
});

describe('a node that installs new keys', () => {
  test('has recorded the owner documents that it accepted', async () => {
    node = new TestNode(['KubernetesWorker']);
    const handedOver = node.owner.sign('owners', {
      keys: [Buffer.from(node.owner.pubKey).toString('base64')],
    });
    node.documents = [node.owner.sign('keys', signedKeysOf(publicKeysOf(set))), handedOver];
    await using _life = node.live();
    await node.tell('trust');
    await rest();
    expect(node.reached()).toBe('2/trust');
    expect(await node.store.loadFloors()).toMatchObject({ keys: { serial: 2 }, owners: { serial: 1 } });
  });
});

describe('the keys in a ticket', () => {
  beforeEach(() => {
    node = new TestNode(CONTROL_PLANE);
  });

  test('are installed in the phase of the control plane that signed it, and never replace keys of a later stage', async () => {
    await node.store.adoptSet(encodeKeySet(set));
    expect(await node.store.loadStage()).toEqual({ generation: 2, phase: 'trust' });
    await node.store.saveSet({ ...set, phase: 'issue' });
    await node.store.adoptSet(encodeKeySet(set));
    expect((await node.store.loadSet())?.phase).toBe('issue');
  });

  test('are refused if the node has used newer keys and lost them', async () => {
    await node.store.saveStage({ generation: 3, phase: 'done' });
    await expect(node.store.adoptSet(encodeKeySet(set))).rejects.toMatchObject({
      code: 'keyrotation-generation-old',
    });
    expect(await node.store.loadSet()).toBeUndefined();
  });
});
