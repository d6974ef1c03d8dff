import { describe, expect, test } from '@jest/globals';
import { clusterPartOf, parseClusterConfig } from '../../internal/config/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { InitState } from '../workspace/index.ts';
import { planRestore, refuseOtherConfiguration } from './plan-restore.ts';

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

describe('refuseOtherConfiguration()', () => {
  const configOf = (more: string, name = 'prod') =>
    parseClusterConfig(
      `version: 1\nname: ${name}\nattestation: {variants: [machine-key], firstContact: fingerprint}\n${more}`,
      'cluster.yaml',
    );
  const saved = (more: string) => Buffer.from(JSON.stringify(clusterPartOf(configOf(more))));

  test.each(['', 'networking: { plugin: none }\n'])('accepts the same networks: %j', (networks) => {
    expect(() => refuseOtherConfiguration(saved(networks), configOf(networks))).not.toThrow();
  });

  test.each([
    { what: 'name', config: configOf('', 'other') },
    { what: 'network of pods', config: configOf('networking: { podSubnet: 10.1.0.0/16 }\n') },
    { what: 'plugin', config: configOf('networking: { plugin: none }\n') },
  ])('refuses another $what', ({ config }) => {
    expect(codeOf(() => refuseOtherConfiguration(saved(''), config))).toBe('backup-configuration-differs');
  });
});
