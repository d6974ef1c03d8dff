import { describe, expect, test } from '@jest/globals';
import { PageAccess, type PageRequest } from './page-access.ts';

const get = (url: string, headers: PageRequest['headers'] = {}, method = 'GET'): PageRequest => ({
  ...{ method, url },
  headers: { host: '127.0.0.1:8600', ...headers },
});

/** An access whose page a browser has opened, and the headers and path of that browser. */
function opened() {
  const access = new PageAccess();
  const decision = access.decide(get(access.address));
  if (decision.kind !== 'admit') throw new Error('not admitted');
  return {
    access,
    home: decision.location,
    cookie: decision.cookie.split(';')[0] ?? '',
    whole: decision.cookie,
  };
}

describe('PageAccess.decide()', () => {
  test('admits the first browser that shows the token, and serves it by its cookie', () => {
    const { access, home, cookie, whole } = opened();
    expect(whole).toMatch(/^cluster-dashboard=[\w-]{43}; Path=\/[\w-]{43}\/; HttpOnly; SameSite=Strict$/);
    const served = access.decide(get(`${home}data?node=n1`, { cookie: `other=1; ${cookie}` }));
    expect(served).toMatchObject({ kind: 'serve', path: 'data' });
  });

  test('refuses a token that was used', () => {
    const { access } = opened();
    expect(access.decide(get(access.address))).toMatchObject({ kind: 'refuse', status: 401 });
  });

  test.each(['/', '/?token=', '/?token=x', `/?token=${'A'.repeat(43)}`])(
    'refuses the wrong token in %s',
    (url) => {
      const access = new PageAccess();
      expect(access.decide(get(url))).toMatchObject({ kind: 'refuse', status: 401 });
      expect(access.isUsed).toBe(false);
    },
  );

  test.each(['', 'cluster-dashboard=', `cluster-dashboard=${'A'.repeat(43)}`])(
    'refuses a browser with the cookie %j',
    (cookie) => {
      const { access, home } = opened();
      expect(access.decide(get(home, { cookie }))).toMatchObject({ kind: 'refuse', status: 401 });
    },
  );

  test('serves nothing outside of the path of the page', () => {
    const { access, cookie } = opened();
    expect(access.decide(get('/other/data', { cookie }))).toMatchObject({ kind: 'refuse', status: 404 });
  });

  test.each([
    'evil.example',
    'evil.example:8600',
    '127.0.0.1.evil.example',
    '192.0.2.1',
    '',
    'localhost:80@evil.example',
  ])('refuses the name of another site, %j, although the address is right', (host) => {
    const { access, home, cookie } = opened();
    expect(access.decide(get(home, { host, cookie }))).toMatchObject({ kind: 'refuse', status: 421 });
    const unopened = new PageAccess();
    expect(unopened.decide(get(unopened.address, { host }))).toMatchObject({ kind: 'refuse', status: 421 });
    expect(unopened.isUsed).toBe(false);
  });

  test.each(['localhost:9', 'LOCALHOST', '127.0.0.1', '[::1]:80'])('answers to the name %s', (host) => {
    const { access, home, cookie } = opened();
    expect(access.decide(get(home, { host, cookie }))).toMatchObject({ kind: 'serve' });
  });

  test.each(['cross-site', 'same-site'])(
    'refuses a %s request of another page, such as one on another port',
    (site) => {
      const { access, home, cookie } = opened();
      const headers = { cookie, 'sec-fetch-site': site };
      expect(access.decide(get(home, headers))).toMatchObject({ kind: 'refuse', status: 403 });
    },
  );

  test.each(['POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'CONNECT', ''])(
    'refuses the method %j',
    (method) => {
      const { access, home, cookie } = opened();
      expect(access.decide(get(home, { cookie }, method))).toMatchObject({ kind: 'refuse', status: 405 });
    },
  );

  test.each(['http://evil.example/', '//evil.example/', '*', `/${'a'.repeat(5_000)}`])(
    'serves nothing for %.30s',
    (url) => {
      const { access, cookie } = opened();
      expect(access.decide(get(url, { cookie }))).toMatchObject({ kind: 'refuse' });
    },
  );

  test('makes another token, path and cookie each time', () => {
    const [one, other] = [opened(), opened()];
    expect(
      new Set([one.home, other.home, one.cookie, other.cookie, one.access.address, other.access.address])
        .size,
    ).toBe(6);
  });
});
