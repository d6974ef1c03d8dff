import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { admissionPlugins, writeAdmissionConfig } from './admission-config.ts';
import { DEFAULT_HARDENING } from '../../../internal/config/index.ts';
import { PATHS, type KubernetesSettings } from '../settings.ts';

type Given = KubernetesSettings['podSecurity'];

/** Returns the Pod Security settings that the API server would read from the written file. */
async function placed(podSecurity: Given) {
  const files = new MemoryFiles();
  await writeAdmissionConfig(files, { podSecurity, hardening: undefined });
  const bytes = await files.read(PATHS.admission, 65_536);
  const { plugins } = JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as {
    plugins: readonly {
      name: string;
      configuration: {
        defaults: Record<string, string>;
        exemptions: { namespaces: string[]; usernames: string[] };
      };
    }[];
  };
  expect(plugins.map(({ name }) => name)).toEqual(['PodSecurity']);
  return plugins[0]?.configuration;
}

describe('writeAdmissionConfig()', () => {
  const levels: readonly { name: string; given: Given; want: Readonly<Record<string, string>> }[] = [
    {
      name: 'a new cluster enforces the level baseline, and warns about and audits the level restricted',
      given: { enforce: 'baseline', exemptNamespaces: [], allowCloudMetadata: false },
      want: { enforce: 'baseline', warn: 'restricted', audit: 'restricted' },
    },
    {
      name: 'the API server enforces the level that the operator configured',
      given: { enforce: 'restricted', exemptNamespaces: [], allowCloudMetadata: true },
      want: { enforce: 'restricted', warn: 'restricted', audit: 'restricted' },
    },
    {
      name: 'a cluster created by an earlier release refuses no pods, but warns about pods that violate the level baseline',
      given: undefined,
      want: { enforce: 'privileged', warn: 'baseline', audit: 'restricted' },
    },
  ];
  test.each(levels)('$name', async ({ given, want }) => {
    expect((await placed(given))?.defaults).toMatchObject(want);
  });

  test('exempts the system namespaces and the operator’s exempt namespaces, but no user', async () => {
    const exemptNamespaces = ['storage'];
    const { exemptions } =
      (await placed({ enforce: 'baseline', exemptNamespaces, allowCloudMetadata: false })) ?? {};
    expect(exemptions?.namespaces).toEqual(['kube-system', 'kube-flannel', 'storage']);
    expect(exemptions?.usernames).toEqual([]);
  });
});

describe('EventRateLimit', () => {
  const pluginsOf = async (hardening: KubernetesSettings['hardening']): Promise<readonly string[]> => {
    const files = new MemoryFiles();
    await writeAdmissionConfig(files, { podSecurity: undefined, hardening });
    const text = Buffer.from((await files.read(PATHS.admission, 65_536)) ?? []).toString('utf8');
    const { plugins } = JSON.parse(text) as { plugins: readonly { name: string }[] };
    return plugins.map(({ name }) => name);
  };

  test.each([
    {
      name: 'a new cluster limits events and refuses external IPs of Services',
      hardening: DEFAULT_HARDENING,
      configured: ['PodSecurity', 'EventRateLimit'],
      enabled: ['NodeRestriction', 'EventRateLimit', 'DenyServiceExternalIPs'],
    },
    {
      name: 'a cluster whose configuration disables both does not limit events and allows external IPs',
      hardening: { ...DEFAULT_HARDENING, eventRateLimit: false, serviceExternalIps: true },
      configured: ['PodSecurity'],
      enabled: ['NodeRestriction'],
    },
    {
      name: 'a cluster of an earlier release does not limit events and allows external IPs',
      hardening: undefined,
      configured: ['PodSecurity'],
      enabled: ['NodeRestriction'],
    },
  ])('$name', async ({ hardening, configured, enabled }) => {
    expect(await pluginsOf(hardening)).toEqual(configured);
    expect(admissionPlugins({ hardening })).toEqual(enabled);
  });
});
