import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { parse, stringify } from 'yaml';
import { clusterPartOf, parseClusterConfig, type Json } from '../../internal/config/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { signDocument } from '../../internal/ownerdocument/index.ts';
import { contextOf, createCuratorHarness, type FakeCuratorCalls } from '../cluster/curator/fake-curator.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { runConfigApply, runConfigEdit } from './apply-configuration.ts';
import { runConfigShow } from './current-configuration.ts';
import { runOperatorKey } from '../operators/index.ts';
import { plainSecrets } from '../workspace/fake-passphrases.ts';

const stale = {
  'curator-configuration-stale': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: '-',
    fix: '-',
  },
} as const;

type Document = { [key: string]: Json } & { join: { policy: string; inventory: Json[] } };

/**
 * A cluster with a configuration, an owner with the same cluster.yaml, and other operators who change the
 * cluster.
 */
async function createShared() {
  const now = { text: '', revision: 5n, updatedBy: 'node-1' };
  let onUpdate = (): void => undefined;
  const curator: FakeCuratorCalls = {
    getConfiguration: async () => ({
      document: new TextEncoder().encode(now.text),
      revision: now.revision,
      updatedMs: 1n,
      updatedBy: now.updatedBy,
    }),
    updateConfiguration: async ({ document, baseRevision }) => {
      onUpdate();
      if (baseRevision !== now.revision)
        throw new CodedError(stale, 'curator-configuration-stale', 'updating the configuration');
      now.text = Buffer.from(document).toString('utf8');
      now.revision += 1n;
      now.updatedBy = 'operator:owner';
      return { revision: now.revision };
    },
  };
  // Every change of the configuration was signed by an owner.
  const policy = async () => {
    const { keyPem } = await readOwnerKey(plainSecrets(harness.files), layoutOf('/owner'));
    const head = { kind: 'policy', clusterId: harness.clusterId, epoch: 1, issuedMs: 1 } as const;
    const configurationSha256 = createHash('sha256').update(now.text).digest('hex');
    const serial = Number(now.revision);
    return signDocument({ ...head, serial, endsMs: Date.now() + 1e9, body: { configurationSha256 } }, keyPem);
  };
  const listDocuments = async () => ({ documents: [await policy()], epoch: 1n });
  const harness = await createCuratorHarness(curator, { listDocuments });
  const { files, owner } = harness;
  const yaml = async () => Buffer.from((await files.read('/owner/cluster.yaml', 1e6)) ?? '').toString('utf8');
  now.text = JSON.stringify(clusterPartOf(parseClusterConfig(await yaml(), 'cluster.yaml')));
  return {
    now,
    owner,
    /** The editor of the user, and the user's answers to prompts. */
    atTerminal: (answer = true) => ({ ...owner, host: new RecordingHost({ answer: () => answer }) }),
    files,
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
    document: () => JSON.parse(now.text) as Document,
    /** Another operator changes the configuration in the cluster. */
    others: (change: (document: Document) => void) => {
      const document = JSON.parse(now.text) as Document;
      change(document);
      now.text = JSON.stringify(document);
      now.revision += 1n;
      now.updatedBy = 'operator:bob';
    },
    /** The owner edits cluster.yaml. */
    edit: async (change: (document: Document) => void) => {
      const document = parse(await yaml()) as Document;
      change(document);
      await files.writeAtomic('/owner/cluster.yaml', stringify(document));
    },
    meanwhile: (work: () => void) => {
      onUpdate = () => {
        onUpdate = () => undefined;
        work();
      };
    },
    apply: (options: { readonly onto?: bigint; readonly dryRun?: boolean; readonly yes?: boolean } = {}) =>
      runConfigApply(owner, { file: undefined, dryRun: false, yes: true, onto: undefined, ...options }),
  };
}

const machine = (digit: string, name: string) => ({ identity: `machine-key:${digit.repeat(64)}`, name });

describe('cluster config apply', () => {
  test('applies the changes in the file, and keeps the changes of other operators, also in a second run', async () => {
    await using shared = await createShared();
    await shared.edit((document) => (document.join.policy = 'inventory'));
    await shared.apply();
    shared.others((document) => document.join.inventory.push(machine('b', 'theirs')));
    await shared.edit(
      (document) => (document.join = { ...document.join, inventory: [machine('a', 'mine')] }),
    );
    await shared.apply();
    const after = shared.now.text;
    await shared.apply();
    expect(shared.now.text).toBe(after);
    expect(shared.document().join).toMatchObject({
      policy: 'inventory',
      inventory: [{ name: 'theirs' }, { name: 'mine' }],
    });
  });

  test('reports conflicts with their lines and changes nothing', async () => {
    await using shared = await createShared();
    await shared.apply();
    shared.others((document) => (document.join.policy = 'auto'));
    await shared.edit((document) => (document.join.policy = 'inventory'));
    const before = shared.now.text;
    const line = (await linesOf(shared)).findIndex((text) => text.includes('policy: inventory')) + 1;
    await expect(shared.apply()).rejects.toMatchObject({
      code: 'configuration-conflict',
      message: expect.stringContaining(
        `cluster.yaml:${line}:3: join.policy: file "inventory", cluster "auto", before "approve"`,
      ),
    });
    expect(shared.now.text).toBe(before);
    await shared.apply({ onto: shared.now.revision });
    expect(shared.document().join.policy).toBe('inventory');
  });

  test('reports immutable settings with their lines', async () => {
    await using shared = await createShared();
    await shared.edit((document) => (document['name'] = 'other'));
    await expect(shared.apply()).rejects.toMatchObject({
      code: 'configuration-immutable',
      message: expect.stringMatching(/cluster\.yaml:\d+:1: name/),
    });
  });

  test('refuses another backend of the pod network: nodes would change one by one', async () => {
    await using shared = await createShared();
    const before = shared.now.text;
    await shared.edit((document) => (document['networking'] = { backend: 'wireguard' }));
    await expect(shared.apply()).rejects.toMatchObject({
      code: 'configuration-immutable',
      message: expect.stringMatching(/cluster\.yaml:\d+:\d+: networking\.backend/),
    });
    expect(shared.now.text).toBe(before);
  });

  test('merges again after a concurrent change', async () => {
    await using shared = await createShared();
    await shared.edit((document) => (document.join.policy = 'auto'));
    shared.meanwhile(() =>
      shared.others((document) => (document['certificates'] = { nodeMinutes: 60, kubeletMinutes: 60 })),
    );
    await shared.apply();
    expect(shared.document()).toMatchObject({ join: { policy: 'auto' }, certificates: { nodeMinutes: 60 } });
  });

  test('needs --onto in a workspace that has never applied a configuration if another operator has applied one', async () => {
    await using shared = await createShared();
    shared.others((document) => (document.join.policy = 'auto'));
    const before = shared.now.text;
    await expect(shared.apply()).rejects.toMatchObject({ code: 'configuration-base-unknown' });
    await expect(shared.apply({ onto: 1n })).rejects.toMatchObject({ code: 'configuration-base-unknown' });
    expect(shared.now.text).toBe(before);
    await shared.apply({ onto: shared.now.revision });
    expect(shared.document().join.policy).toBe('approve');
  });

  test('shows the changes with --dry-run and saves nothing', async () => {
    await using shared = await createShared();
    await shared.edit((document) => (document.join.policy = 'auto'));
    const before = shared.now.text;
    await shared.apply({ dryRun: true });
    expect(shared.owner.host.answered).toMatchObject({ changes: ['join.policy'], dryRun: true });
    expect(shared.now.text).toBe(before);
    expect(await shared.files.stat('/owner/applied.json')).toBeUndefined();
  });
});

const editor = (shared: Awaited<ReturnType<typeof createShared>>, change: (text: string) => string) => ({
  runAttached: async ({ argv }: { readonly argv: readonly string[] }) => {
    const path = argv.at(-1) ?? '';
    const text = Buffer.from((await shared.files.read(path, 1e6)) ?? '').toString('utf8');
    await shared.files.writeAtomic(path, change(text));
    return 0;
  },
});

describe('cluster config edit', () => {
  test('applies the edit and keeps changes made while the editor was open', async () => {
    await using shared = await createShared();
    const runs = editor(shared, (text) => {
      shared.others((document) => document.join.inventory.push(machine('b', 'theirs')));
      return text.replace('policy: approve', 'policy: inventory');
    });
    await runConfigEdit(shared.atTerminal(), runs);
    expect(shared.document().join).toMatchObject({ policy: 'inventory', inventory: [{ name: 'theirs' }] });
    expect((await shared.files.list('/owner')).filter((name) => name.startsWith('.configuration'))).toEqual(
      [],
    );
  });

  test('keeps an invalid edit for the next run', async () => {
    await using shared = await createShared();
    const slip = editor(shared, (text) => text.replace('policy: approve', 'policy: everybody'));
    await expect(runConfigEdit(shared.atTerminal(), slip)).rejects.toMatchObject({ code: 'config-invalid' });
    const replace = editor(shared, (text) => text.replace('policy: everybody', 'policy: auto'));
    await runConfigEdit(shared.atTerminal(), replace);
    expect(shared.document().join.policy).toBe('auto');
  });
});

test('cluster config edit is refused without a terminal', async () => {
  await using shared = await createShared();
  const runs = editor(shared, (text) => text);
  await expect(runConfigEdit(shared.owner, runs)).rejects.toMatchObject({
    code: 'app-usage',
    message: expect.stringContaining('needs a terminal'),
  });
});

describe('a configuration that deletes settings', () => {
  const listing = async () => {
    const shared = await createShared();
    await shared.edit((document) => {
      document.join.inventory = [machine('a', 'mine')];
    });
    await shared.apply();
    await shared.edit((document) => {
      document.join.inventory = [];
    });
    return shared;
  };
  const place = `the setting join.inventory[machine-key:${'a'.repeat(64)}], which the file does not contain any more`;

  test('is applied only if the operator confirms the listed loss', async () => {
    await using shared = await listing();
    await expect(shared.apply({ yes: false })).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      details: { losses: [place] },
    });
    expect(shared.document().join.inventory).toHaveLength(1);
    await shared.apply({ yes: false, dryRun: true });
    expect(shared.owner.host.records.at(-1)).toMatchObject({ data: { losses: [place] } });
    await shared.apply();
    expect(shared.document().join.inventory).toEqual([]);
  });

  test('needs confirmation after an edit too', async () => {
    await using shared = await listing();
    const drop = editor(shared, (text) => text.replace(/ {2}inventory:\n(?: {4}.*\n)+/, '  inventory: []\n'));
    await expect(runConfigEdit(shared.atTerminal(false), drop)).rejects.toMatchObject({
      code: 'loss-declined',
    });
    expect(shared.document().join.inventory).toHaveLength(1);
  });
});

describe('a configuration that this version cannot read', () => {
  /** Stores a configuration of a newer version directly in etcd. */
  const createBroken = async () => {
    const shared = await createShared();
    shared.others((document) => (document['jion'] = { policy: 'auto\u001b[2J' }));
    return shared;
  };

  test('is shown as stored, with the reason, without control characters', async () => {
    await using shared = await createBroken();
    await runConfigShow(shared.owner);
    const [record] = shared.owner.host.records;
    const text = record?.kind === 'result' ? record.text : '';
    expect(text).toContain('# Revision 6, by operator:bob');
    expect(text).toContain('jion:');
    expect(text).toContain('policy: "auto');
    expect(text).not.toContain('\u001b');
    expect(shared.owner.host.answered).toMatchObject({
      stored: shared.now.text,
      problem: expect.stringContaining('jion'),
    });
  });

  test('is shown even if it is not JSON', async () => {
    await using shared = await createShared();
    shared.now.text = 'version: [1';
    await runConfigShow(shared.owner);
    const [record] = shared.owner.host.records;
    expect(record?.kind === 'result' ? record.text : '').toMatch(/\nversion: \[1$/);
  });

  test('is replaced as a whole only with --onto and the revision of the stored configuration', async () => {
    await using shared = await createBroken();
    const broken = shared.now.text;
    for (const onto of [undefined, shared.now.revision - 1n])
      await expect(shared.apply(onto === undefined ? {} : { onto })).rejects.toMatchObject({
        code: 'configuration-unreadable',
      });
    await shared.apply({ onto: shared.now.revision, dryRun: true });
    expect(shared.now.text).toBe(broken);
    await shared.apply({ onto: shared.now.revision });
    expect(shared.document()).not.toHaveProperty('jion');
    expect(shared.document().join.policy).toBe('approve');
  });

  test('is replaced by an edit', async () => {
    await using shared = await createBroken();
    await runConfigEdit(
      shared.atTerminal(),
      editor(shared, (text) => text.replace(/^jion:\n.*\n/m, '')),
    );
    expect(shared.document()).not.toHaveProperty('jion');
  });

  test('is not overwritten by an edit if it was replaced meanwhile', async () => {
    await using shared = await createBroken();
    const late = editor(shared, (text) => {
      shared.others((document) => {
        delete document['jion'];
        document.join.policy = 'auto';
      });
      return text.replace(/^jion:\n.*\n/m, '');
    });
    await expect(runConfigEdit(shared.atTerminal(), late)).rejects.toMatchObject({
      code: 'configuration-base-unknown',
    });
    expect(shared.document().join.policy).toBe('auto');
  });
});

test('cluster config show prints a file that can be applied, and who changed it', async () => {
  await using shared = await createShared();
  await runConfigShow(shared.owner);
  const [record] = shared.owner.host.records;
  const text = record?.kind === 'result' ? record.text : '';
  expect(text).toMatch(/^# Revision 5, by node-1 at 1970-01-01T00:00:00.001Z\n/);
  expect(clusterPartOf(parseClusterConfig(text, 'shown'))).toEqual(shared.document());
});

test('cluster config show is refused to an operator without a grant', async () => {
  await using shared = await createShared();
  const ann = contextOf(shared.files, '/ann');
  await runOperatorKey(ann, 'ann', { request: undefined });
  await expect(runConfigShow(ann)).rejects.toMatchObject({ code: 'cluster-identity-not-granted' });
});

async function linesOf({ files }: Awaited<ReturnType<typeof createShared>>): Promise<readonly string[]> {
  const raw = await files.read('/owner/cluster.yaml', 1e6);
  return Buffer.from(raw ?? '')
    .toString('utf8')
    .split('\n');
}
