import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { writeAdmissionConfig } from './admission-config.ts';
import { PATHS } from '../settings.ts';

type Given = Parameters<typeof writeAdmissionConfig>[1];

/** What the API server reads about Pod Security. */
async function placed(podSecurity: Given) {
  const files = new MemoryFiles();
  await writeAdmissionConfig(files, podSecurity);
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
      name: 'a new cluster enforces baseline, warns about and audits restricted',
      given: { enforce: 'baseline', exemptNamespaces: [], allowCloudMetadata: false },
      want: { enforce: 'baseline', warn: 'restricted', audit: 'restricted' },
    },
    {
      name: 'an operator’s own level is enforced',
      given: { enforce: 'restricted', exemptNamespaces: [], allowCloudMetadata: true },
      want: { enforce: 'restricted', warn: 'restricted', audit: 'restricted' },
    },
    {
      name: 'a cluster that was made before refuses nothing and warns of what baseline would refuse',
      given: undefined,
      want: { enforce: 'privileged', warn: 'baseline', audit: 'restricted' },
    },
  ];
  test.each(levels)('$name', async ({ given, want }) => {
    expect((await placed(given))?.defaults).toMatchObject(want);
  });

  test('exempts system namespaces and those of the operator, and no user', async () => {
    const exemptNamespaces = ['storage'];
    const { exemptions } =
      (await placed({ enforce: 'baseline', exemptNamespaces, allowCloudMetadata: false })) ?? {};
    expect(exemptions?.namespaces).toEqual(['kube-system', 'kube-flannel', 'storage']);
    expect(exemptions?.usernames).toEqual([]);
  });
});
