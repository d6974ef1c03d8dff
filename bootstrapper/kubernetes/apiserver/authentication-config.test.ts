import { expect, test } from '@jest/globals';
import { DEFAULT_HARDENING, type AuthenticationConfig } from '../../../internal/config/index.ts';
import { readText } from '../../../internal/file/index.ts';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { PATHS } from '../settings.ts';
import { writeAuthenticationConfig } from './authentication-config.ts';

const settings = { hardening: DEFAULT_HARDENING };
const issuers: AuthenticationConfig = {
  issuers: [
    {
      ...{ url: 'https://i.example', audiences: ['kubernetes'], discoveryUrl: undefined, ca: undefined },
      ...{ usernameClaim: 'email', usernamePrefix: '', groupsClaim: 'groups', groupsPrefix: 'oidc:' },
      requiredClaims: { hd: 'example.org' },
    },
  ],
};

async function written(
  files: MemoryFiles,
): Promise<{ readonly jwt: readonly object[]; readonly anonymous: object }> {
  return JSON.parse((await readText(files, PATHS.authentication)) ?? '') as Awaited<
    ReturnType<typeof written>
  >;
}

test('writeAuthenticationConfig() maps an issuer, and refuses users and groups with reserved names in any case', async () => {
  const files = new MemoryFiles();
  expect(await writeAuthenticationConfig(files, settings, issuers)).toBe(true);
  const reserved = (name: string): string =>
    ['system:', 'cluster:', 'kubeadm:'].map((prefix) => `!${name}.startsWith('${prefix}')`).join(' && ');
  expect((await written(files)).jwt).toEqual([
    {
      issuer: { url: 'https://i.example', audiences: ['kubernetes'], audienceMatchPolicy: 'MatchAny' },
      claimValidationRules: [{ claim: 'hd', requiredValue: 'example.org' }],
      claimMappings: {
        username: { claim: 'email', prefix: '' },
        groups: { claim: 'groups', prefix: 'oidc:' },
      },
      userValidationRules: [
        { expression: reserved('user.username'), message: 'this user name is reserved' },
        {
          expression: `user.groups.all(group, ${reserved('group')})`,
          message: 'the name of a group of this user is reserved',
        },
      ],
    },
  ]);
  expect(await writeAuthenticationConfig(files, settings, issuers)).toBe(false);
});

test('writeAuthenticationConfig() allows anonymous requests only for health checks, and keeps the issuers in the file if it is called without issuers', async () => {
  const files = new MemoryFiles();
  const paths = ['/healthz', '/livez', '/readyz'].map((path) => ({ path }));
  await writeAuthenticationConfig(files, settings);
  expect(await written(files)).toMatchObject({ jwt: [], anonymous: { enabled: true, conditions: paths } });
  await writeAuthenticationConfig(files, settings, issuers);
  expect(await writeAuthenticationConfig(files, settings)).toBe(false);
  expect(await written(files)).toMatchObject({ jwt: [{}], anonymous: { enabled: true, conditions: paths } });
  await writeAuthenticationConfig(files, settings, { issuers: [] });
  expect((await written(files)).jwt).toEqual([]);
  await files.writeAtomic(PATHS.authentication, 'damaged');
  await writeAuthenticationConfig(files, settings);
  expect((await written(files)).jwt).toEqual([]);
});
