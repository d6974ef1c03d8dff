import { describe, expect, test } from '@jest/globals';
import type { PodSecurityConfig } from '../../../internal/config/index.ts';
import { PlatformError } from '../../../internal/platform/index.ts';
import { FakeUnits, MemoryFiles } from '../../../internal/testing/index.ts';
import { createControlPlane, never, placeKubelet, silent } from '../fake-machine.ts';
import { METADATA_GUARD_RULES, METADATA_GUARD_UNIT, ensureMetadataGuard } from './metadata-guard.ts';
import { KUBELET_UNIT } from './units.ts';

describe('ensureMetadataGuard()', () => {
  test('loads rules that reject the metadata addresses and Azure’s wire server for forwarded and local packets, but allow DNS', async () => {
    const [files, units] = [new MemoryFiles(), new FakeUnits()];
    await ensureMetadataGuard({ files, units }, true, never);
    const rules = Buffer.from((await files.read(METADATA_GUARD_RULES, 65_536)) ?? []).toString('utf8');
    for (const hook of ['forward', 'input']) {
      const chain = rules.slice(rules.indexOf(`chain ${hook}`)).split('\n  }')[0];
      expect(chain).toContain(`type filter hook ${hook} `);
      expect(chain).toMatch(
        /169\.254\.169\.254 udp dport 53 accept\n.*tcp dport 53 accept\n.*169\.254\.169\.254 reject/,
      );
      expect(chain).toContain('ip6 daddr fd00:ec2::254 reject');
      expect(chain).toContain('ip daddr 168.63.129.16 tcp dport { 80, 32526 } reject');
    }
    expect(units.moves).toEqual([`start ${METADATA_GUARD_UNIT}`]);
    await ensureMetadataGuard({ files, units }, true, never);
    expect(units.moves).toHaveLength(1);
  });

  test('loads the rules of a newer release again', async () => {
    const [files, units] = [new MemoryFiles(), new FakeUnits()];
    await ensureMetadataGuard({ files, units }, true, never);
    const before = units.installed.get(METADATA_GUARD_UNIT) ?? '';
    units.installed.set(METADATA_GUARD_UNIT, before.replace(/^# Rules [0-9a-f]{64}$/m, '# Rules of before'));
    await ensureMetadataGuard({ files, units }, true, never);
    expect(units.moves).toEqual([`start ${METADATA_GUARD_UNIT}`, `restart ${METADATA_GUARD_UNIT}`]);
  });

  test('removes the rules if the configuration allows pods to use the metadata service', async () => {
    const [files, units] = [new MemoryFiles(), new FakeUnits()];
    await ensureMetadataGuard({ files, units }, true, never);
    await ensureMetadataGuard({ files, units }, false, never);
    expect(units.active.size).toBe(0);
  });
});

describe('Kubelet.start() and the metadata guard', () => {
  const blocking: PodSecurityConfig = {
    enforce: 'baseline',
    exemptNamespaces: [],
    allowCloudMetadata: false,
  };
  const create = async (podSecurity: PodSecurityConfig | undefined) => {
    const { kubelet, units, files } = createControlPlane();
    await placeKubelet(files);
    return { units, start: () => kubelet({ podSecurity }).start(silent, never) };
  };

  test('starts the metadata guard before the kubelet', async () => {
    const { units, start } = await create(blocking);
    await start();
    expect(units.moves).toEqual([`start ${METADATA_GUARD_UNIT}`, `start ${KUBELET_UNIT}`]);
  });

  test('does not start the kubelet if the guard fails', async () => {
    const { units, start } = await create(blocking);
    units.start = (unit) =>
      Promise.reject(new PlatformError('platform-unit-failed', `starting ${unit}: nft: not found`));
    await expect(start()).rejects.toMatchObject({ code: 'kubernetes-metadata-unguarded' });
    expect(units.active.size).toBe(0);
  });

  test.each([
    {
      name: 'the operator allows access to the metadata service',
      podSecurity: { ...blocking, allowCloudMetadata: true },
    },
    { name: 'an earlier release without the guard created the cluster', podSecurity: undefined },
  ])('starts the kubelet without the guard if $name', async ({ podSecurity }) => {
    const { units, start } = await create(podSecurity);
    await start();
    expect(units.moves).toEqual([`start ${KUBELET_UNIT}`]);
  });
});
