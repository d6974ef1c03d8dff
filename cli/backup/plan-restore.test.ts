import { describe, expect, test } from '@jest/globals';
import { clusterPartOf, parseClusterConfig } from '../../internal/config/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { InitState } from '../workspace/index.ts';
import { findWorkers, keptWorkersOf, planRestore, compareConfiguration } from './plan-restore.ts';

const FILE = { sha256: 'aa', fingerprint: undefined, acceptOlderEpoch: false };
const at = (epoch: number) => ({ ...FILE, header: { epoch } });

function initOf(epoch?: string, fingerprint = 'sha256:01'): InitState {
  const result = {
    ...{ clusterId: 'c', nodeId: 'n', nodeName: 'n1', clusterCaPem: '', ownerCertPem: '', adminCertPem: '' },
    ...{ kubernetesCaPem: '', apiEndpoints: [], curatorEndpoints: [], epoch: epoch ?? '' },
  };
  return {
    ...{ id: 'i', endpoint: '192.0.2.1:9000', fingerprint, requestHash: '', startedMs: 1 },
    ...{ stage: 'requested', ...(epoch === undefined ? {} : { result }) },
  };
}

const codeOf = (plan: () => unknown): string | undefined => {
  try {
    plan();
    return undefined;
  } catch (error) {
    return findCoded(error)?.code;
  }
};

describe('planRestore()', () => {
  test('begins in the epoch that follows the epoch of the backup', () => {
    expect(planRestore({}, 1, at(1))).toEqual({ kind: 'begin', epoch: 2 });
    expect(planRestore({ init: initOf('1') }, 1, at(3))).toEqual({ kind: 'begin', epoch: 4 });
  });

  test('refuses a backup that is older than a quorum recovery known to the workspace', () => {
    // The init ran in epoch 1; a curator has reported epoch 2 since `cluster recover quorum`.
    expect(codeOf(() => planRestore({ init: initOf('1') }, 2, at(1)))).toBe('backup-epoch-old');
    expect(planRestore({ init: initOf('1') }, 2, at(2))).toEqual({ kind: 'begin', epoch: 3 });
  });

  test('refuses a backup that is older than a finished restore, but not one that is older than an unfinished restore', () => {
    const restore = { fileSha256: 'bb', epoch: 4 };
    expect(codeOf(() => planRestore({ restore, init: initOf('4') }, 1, at(3)))).toBe('backup-epoch-old');
    expect(codeOf(() => planRestore({ restore, init: initOf() }, 1, at(2)))).toBe('backup-epoch-old');
    // Both restore attempts use the same backup, so only a new epoch distinguishes their machines.
    expect(planRestore({ restore, init: initOf() }, 1, at(3))).toEqual({ kind: 'begin', epoch: 5 });
  });

  test('restores an older backup if the operator accepts the loss, in an epoch above all known ones', () => {
    const older = { ...at(1), acceptOlderEpoch: true };
    expect(planRestore({ init: initOf('1') }, 3, older)).toEqual({ kind: 'begin', epoch: 4 });
  });

  test('resumes with the same backup file, also after the init of the restored cluster has finished', () => {
    const restore = { fileSha256: 'aa', epoch: 2 };
    expect(planRestore({ restore, init: initOf() }, 1, at(1))).toEqual({ kind: 'resume', epoch: 2 });
    expect(planRestore({ restore, init: initOf('2') }, 2, at(1))).toEqual({ kind: 'resume', epoch: 2 });
    const same = { ...at(1), fingerprint: 'sha256:01' };
    expect(planRestore({ restore, init: initOf('2') }, 2, same)).toEqual({ kind: 'resume', epoch: 2 });
  });

  test('starts again in a new epoch if another machine is named', () => {
    const restore = { fileSha256: 'aa', epoch: 2 };
    const other = { ...at(1), fingerprint: 'sha256:02' };
    expect(planRestore({ restore, init: initOf() }, 1, other)).toEqual({ kind: 'begin', epoch: 3 });
    // The restored cluster has already run, so a second restore would lose its changes.
    expect(codeOf(() => planRestore({ restore, init: initOf('2') }, 1, other))).toBe('backup-epoch-old');
  });
});

describe('compareConfiguration()', () => {
  const configOf = (more: string, name = 'prod') =>
    parseClusterConfig(
      `version: 1\nname: ${name}\nattestation: {variants: [machine-key], firstContact: fingerprint}\n${more}`,
      'cluster.yaml',
    );
  const saved = (more: string) => Buffer.from(JSON.stringify(clusterPartOf(configOf(more))));

  test.each(['', 'networking: { plugin: none }\n'])('accepts the same networks: %j', (networks) => {
    expect(compareConfiguration(saved(networks), configOf(networks))).toEqual([]);
  });

  test('names the settings that differ, but for those of the first machine', () => {
    const now = configOf('apiServer: { extraSans: [api.example.com] }\nfirstNode: { name: other }\n');
    expect(compareConfiguration(saved(''), now)).toEqual(['apiServer.extraSans']);
  });

  test.each([
    { what: 'name', config: configOf('', 'other') },
    { what: 'network of pods', config: configOf('networking: { podSubnet: 10.1.0.0/16 }\n') },
    { what: 'plugin', config: configOf('networking: { plugin: none }\n') },
  ])('refuses another $what', ({ config }) => {
    expect(codeOf(() => compareConfiguration(saved(''), config))).toBe('backup-configuration-differs');
  });
});

describe('findWorkers()', () => {
  const worker = (name: string, identity?: string) => ({
    ...{ nodeId: `node-${name}`, name, roles: ['KubernetesWorker'] },
    ...(identity !== undefined && { identity }),
  });
  const control = { ...worker('n1'), roles: ['ConsensusMember', 'KubernetesController', 'KubernetesWorker'] };
  const nodes = [control, worker('w1', 'tpm-ek:01'), worker('w2')];

  test('finds each worker once, and reads nothing of a backup if none is named', () => {
    expect(findWorkers({ nodes }, ['w2', 'w1', 'w2'], [])).toEqual([
      { nodeId: 'node-w2', name: 'w2' },
      { nodeId: 'node-w1', name: 'w1' },
    ]);
    expect(findWorkers({}, [], [])).toEqual([]);
  });

  test.each([
    { name: 'in a backup of an older version', facts: {}, want: 'backup-nodes-unknown' },
    { name: 'that is not in the backup', wanted: 'w9', want: 'backup-worker-unknown' },
    { name: 'that is a control plane too', wanted: 'n1', want: 'backup-worker-unknown' },
    { name: 'whose node was removed', known: 'node-w1', want: 'backup-worker-removed' },
    {
      name: 'whose machine was removed as another node',
      identity: 'tpm-ek:01',
      want: 'backup-worker-removed',
    },
  ])(
    'refuses a worker $name',
    ({ facts = { nodes }, wanted = 'w1', known = 'node-x', identity = '', want }) => {
      const removed = [{ nodeId: known, identity, name: 'old' }];
      expect(codeOf(() => findWorkers(facts, [wanted], removed))).toBe(want);
    },
  );
});

describe('keptWorkersOf()', () => {
  const kept = [{ nodeId: 'node-w1', name: 'w1' }];
  const restore = { fileSha256: 'aa', epoch: 2, keptWorkers: kept };

  test('continues with the workers with which the restore was begun', () => {
    expect(keptWorkersOf({ restore }, [])).toEqual(kept);
    expect(keptWorkersOf({ restore }, ['w1', 'w1'])).toEqual(kept);
    expect(keptWorkersOf({ restore: { fileSha256: 'aa', epoch: 2 } }, [])).toEqual([]);
  });

  test('refuses other workers', () => {
    expect(codeOf(() => keptWorkersOf({ restore }, ['w1', 'w2']))).toBe('backup-workers-differ');
    expect(codeOf(() => keptWorkersOf({}, ['w1']))).toBe('backup-workers-differ');
  });
});
