import { expect, test } from '@jest/globals';
import { parseRegistryLogins, renderRegistryLogins } from './registry-logins.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const revealed = (text: string): Record<string, string> =>
  Object.fromEntries([...parseRegistryLogins(text)].map(([server, login]) => [server, login.reveal()]));

test('parseRegistryLogins() reads what `docker login` writes, and finds docker.io under the name of its old API', () => {
  const auths = {
    'https://index.docker.io/v1/': { auth: base64('ann:p:w') },
    'mirror.example.org:5000': { username: 'bob', password: 'secret' },
    'keychain.example.org': {},
    'no-password.example.org': { auth: base64('ann:') },
    'newline.example.org': { auth: base64('ann:p\nX-Header: a') },
  };
  const text = JSON.stringify({ auths, credsStore: 'desktop' });
  expect(revealed(text)).toEqual({
    'registry-1.docker.io': 'ann:p:w',
    'mirror.example.org:5000': 'bob:secret',
  });
  expect(revealed(renderRegistryLogins(parseRegistryLogins(text)).reveal())).toEqual(revealed(text));
});

test.each(['', '{', '[]', '{}', '{"auths":{"a":{"auth":"hunter2!"}}}', '{"auths":{"a":"hunter2!"}}'])(
  'parseRegistryLogins() refuses %j without quoting it',
  (text) => {
    expect(() => parseRegistryLogins(text)).toThrow(/^it (is not JSON|has no `auths`)/);
    expect(() => parseRegistryLogins(text)).not.toThrow(/hunter2/);
  },
);
