import assert from 'node:assert/strict';
import { request } from 'node:https';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { findFreePort } from '../../../internal/testing/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { installIssuer, OidcIssuer } from './oidc-issuer.ts';
import { createPrivateCa } from './private-ca.ts';

const NAME = 'issuers';
const NODES = ['n1', 'n2'] as const;
/** The API server looks at its configuration when it changes, and again each minute after a failure. */
const RELOAD_SECONDS = 100;

await test('users of two OpenID Connect issuers log in to each API server', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 2, workers: 0 });
  const host = await cluster.workstation();
  const { caPem, issue } = await createPrivateCa(host);
  const program = await installIssuer(bench.directory);
  const person = (name: string, more: object = {}) => ({
    audience: 'kubernetes',
    claims: { name, groups: ['dev'], email: `${name}@example.org`, ...more },
  });
  const start = async (clients: Readonly<Record<string, ReturnType<typeof person>>>) =>
    OidcIssuer.start({ program, host, port: await findFreePort(), ...(await issue()), clients });
  await using staff = await start({
    ann: person('ann'),
    elsewhere: { ...person('eve'), audience: 'another-application' },
    node: person('system:node:n1', { groups: ['system:nodes'] }),
  });
  await using partner = await start({
    bob: person('bob', { tenant: 'one' }),
    mallory: person('mallory', { tenant: 'two' }),
    admin: person('ann', { tenant: 'one', groups: ['system:masters'] }),
    owner: person('ann', { tenant: 'one', groups: ['kubeadm:cluster-admins'] }),
    operator: person('ann', { tenant: 'one', groups: ['cluster:operators'] }),
    root: person('system:admin', { tenant: 'one' }),
  });
  const workspace = await cluster.workspace();
  const base = { ca: caPem, audiences: ['kubernetes'], usernameClaim: 'name', groupsClaim: 'groups' };
  const ofStaff = { ...base, url: staff.url };
  const ofPartner = {
    ...{ ...base, url: partner.url, requiredClaims: { tenant: 'one' } },
    ...{ usernamePrefix: 'partner:', groupsPrefix: 'partner:' },
  };
  const apply = async (...issuers: readonly object[]): Promise<void> => {
    await cluster.edit((yaml) => stringify({ ...(parse(yaml) as object), authentication: { issuers } }));
    await bench.must('--workspace', workspace, 'config', 'apply', '--yes');
  };
  const whoIs = async (node: string, token: string | undefined) => review(await cluster.address(node), token);
  const untilKnown = async (token: string, wanted: string | undefined): Promise<void> => {
    const sinceMs = Date.now();
    for (const node of NODES)
      await eventually(
        `${node} knows the user as ${wanted ?? 'nobody'}`,
        RELOAD_SECONDS,
        () => whoIs(node, token),
        ({ username }) => username === wanted,
      );
    story.diagnostic(`${wanted ?? 'nobody'} at both API servers after ${Date.now() - sinceMs} ms`);
  };
  await cluster.up();

  await story.test(
    'users of both issuers have prefixed names at each API server, after an apply and without a restart',
    async () => {
      const ann = await staff.token('ann');
      for (const node of NODES) assert.equal((await whoIs(node, ann)).status, 401);
      const pids = () => Promise.all(NODES.map((node) => cluster.run(node, 'pidof', 'kube-apiserver')));
      const before = await pids();
      await apply(ofStaff, ofPartner);
      await untilKnown(ann, 'oidc:ann');
      await untilKnown(await partner.token('bob'), 'partner:bob');
      for (const node of NODES)
        assert.deepEqual((await whoIs(node, ann)).groups?.toSorted(), ['oidc:dev', 'system:authenticated']);
      assert.deepEqual(await pids(), before);
    },
  );

  await story.test('RBAC gives permissions to the prefixed group, and nothing else does', async () => {
    const token = await staff.token('ann');
    const pods = async (): Promise<number> =>
      (await call({ host: await cluster.address('n2'), path: '/api/v1/namespaces/default/pods', token }))
        .status;
    assert.equal(await pods(), 403);
    await cluster.run(
      'n1',
      'kubectl',
      'create',
      'rolebinding',
      'dev',
      '--clusterrole',
      'view',
      '--group',
      'oidc:dev',
    );
    await eventually('the group may list pods', 30, pods, (status) => status === 200);
  });

  await story.test(
    'tokens for another application, of another tenant, without or with a changed signature are refused',
    async () => {
      const good = await staff.token('ann');
      const [head = '', body = '', signature = ''] = good.split('.');
      const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object;
      const other = Buffer.from(JSON.stringify({ ...claims, name: 'bob' })).toString('base64url');
      const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
      const refused = {
        'another audience': await staff.token('elsewhere'),
        'another tenant': await partner.token('mallory'),
        'changed claims': `${head}.${other}.${signature}`,
        'no signature': `${none}.${body}.`,
        'no token': undefined,
      };
      for (const [name, token] of Object.entries(refused))
        for (const node of NODES) assert.equal((await whoIs(node, token)).status, 401, `${name} at ${node}`);
      assert.equal((await call({ host: await cluster.address('n1'), path: '/readyz' })).status, 200);
      assert.equal((await whoIs('n1', await staff.token('node'))).username, 'oidc:system:node:n1');
    },
  );

  await story.test(
    'after an issuer has changed its key, its new tokens are accepted and its old tokens are refused',
    async () => {
      const old = await staff.token('ann');
      await staff.rotate();
      await untilKnown(await staff.token('ann'), 'oidc:ann');
      await untilKnown(old, undefined);
    },
  );

  await story.test(
    'while one issuer is down, logins of the other issuer work, also at an API server that starts during this time',
    async () => {
      await partner.stop();
      const ann = await staff.token('ann');
      for (const node of NODES) assert.equal((await whoIs(node, ann)).username, 'oidc:ann');
      const before = await cluster.run('n1', 'pidof', 'kube-apiserver');
      await cluster.sh('n1', 'kill $(pidof kube-apiserver)');
      await eventually(
        'a new API server runs',
        120,
        () => cluster.try('n1', 'pidof', 'kube-apiserver'),
        ({ code, stdout }) => code === 0 && stdout.trim() !== before,
      );
      await untilKnown(ann, 'oidc:ann');
      await cluster.allReady(NODES, 120);
      await cluster.run('n1', 'kubectl', 'get', 'nodes');
    },
  );

  await story.test('an issuer that is down can be removed, and then all its tokens are refused', async () => {
    await partner.start();
    const bob = await partner.token('bob');
    await untilKnown(bob, 'partner:bob');
    await partner.stop();
    await apply(ofStaff);
    await untilKnown(bob, undefined);
    await untilKnown(await staff.token('ann'), 'oidc:ann');
    await partner.start();
  });

  await story.test(
    'an issuer without prefixes cannot name its users or groups like those of the cluster',
    async () => {
      await apply({ ...ofPartner, usernamePrefix: '', groupsPrefix: '' });
      await untilKnown(await partner.token('bob'), 'bob');
      for (const client of ['admin', 'owner', 'operator', 'root'])
        for (const node of NODES)
          assert.equal((await whoIs(node, await partner.token(client))).status, 401, client);
    },
  );
});

interface Reviewed {
  readonly status: number;
  readonly username?: string | undefined;
  readonly groups?: readonly string[] | undefined;
}

/** The user name and groups that the API server at this address derives from a token (SelfSubjectReview). */
async function review(host: string, token: string | undefined): Promise<Reviewed> {
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const object = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const { status, body } = await call({ host, path, token, object });
  if (status !== 201) return { status };
  const { userInfo } = (
    JSON.parse(body) as { readonly status: { readonly userInfo: Omit<Reviewed, 'status'> } }
  ).status;
  return { status, ...userInfo };
}

function call(options: {
  readonly host: string;
  readonly path: string;
  readonly token?: string | undefined;
  readonly object?: object;
}): Promise<{ readonly status: number; readonly body: string }> {
  const { host, path, token, object } = options;
  const headers = {
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const method = object === undefined ? 'GET' : 'POST';
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>();
  const target = { host, port: 6443, path, method, headers, agent: false, rejectUnauthorized: false };
  const sent = request(target, (response) => {
    let body = '';
    response.on('data', (chunk: Buffer) => (body += chunk.toString()));
    response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
  });
  sent.once('error', reject);
  sent.end(object === undefined ? undefined : JSON.stringify(object));
  return promise;
}
