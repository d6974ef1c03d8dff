import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { Secret } from '../../secret/index.ts';
import type { KubeAccess } from './kube-client.ts';
import { KubeError } from './errors.ts';

const named = z.looseObject({ name: z.string() });
const schema = z.looseObject({
  clusters: z.array(named).nullish(),
  users: z.array(named).nullish(),
  contexts: z.array(named).nullish(),
  'current-context': z.string().nullish(),
});
type Kubeconfig = z.output<typeof schema>;

const ownSchema = z.object({
  clusters: z.tuple([
    z.object({ cluster: z.object({ server: z.url(), 'certificate-authority-data': z.base64() }) }),
  ]),
  users: z.tuple([
    z.object({
      user: z.object({ 'client-certificate-data': z.base64(), 'client-key-data': z.base64() }),
    }),
  ]),
});

/** A kubeconfig (v1) for one cluster with a client certificate. Holds a private key: write it 0600. */
export function renderKubeconfig(name: string, access: KubeAccess): string {
  const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
  const user = `${name}-admin`;
  return stringify(
    {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [
        { name, cluster: { server: access.server, 'certificate-authority-data': base64(access.caPem) } },
      ],
      users: [
        {
          name: user,
          user: {
            'client-certificate-data': base64(access.certPem),
            'client-key-data': base64(access.keyPem.reveal()),
          },
        },
      ],
      contexts: [{ name, context: { cluster: name, user } }],
      'current-context': name,
    },
    { lineWidth: 0 },
  );
}

/** Reads a kubeconfig that `renderKubeconfig` wrote. @throws KubeError `kube-config-invalid` */
export function accessFromKubeconfig(text: string, path: string): KubeAccess {
  const parsed = ownSchema.safeParse(parseYaml(text, path));
  if (!parsed.success) throw invalid(path, 'not a kubeconfig of this program with one cluster and one user');
  const [{ cluster }] = parsed.data.clusters;
  const [{ user }] = parsed.data.users;
  const text64 = (base64: string): string => Buffer.from(base64, 'base64').toString('utf8');
  return {
    server: cluster.server,
    caPem: text64(cluster['certificate-authority-data']),
    certPem: text64(user['client-certificate-data']),
    keyPem: new Secret(text64(user['client-key-data'])),
  };
}

/** The result of a merge. */
interface MergedKubeconfig {
  readonly text: string;
  /** Name of the context of the added cluster. */
  readonly context: string;
}

/**
 * Adds a cluster to a user's kubeconfig. Entries of the same cluster (same CA) are replaced. If another
 * cluster has the name, the added cluster gets a name with a number. Everything else in the file stays,
 * including an existing current context.
 */
export function mergeKubeconfig(
  existing: { readonly text: string; readonly path: string } | undefined,
  added: { readonly name: string; readonly access: KubeAccess },
): MergedKubeconfig {
  const current = existing === undefined ? {} : parseKubeconfig(existing.text, existing.path);
  const name = freeName(current, added);
  const own = schema.parse(parse(renderKubeconfig(name, added.access)));
  const joined = (key: 'clusters' | 'users' | 'contexts') => {
    const names = (own[key] ?? []).map((each) => each.name);
    return [...(current[key] ?? []).filter((each) => !names.includes(each.name)), ...(own[key] ?? [])];
  };
  const merged = {
    apiVersion: 'v1',
    kind: 'Config',
    ...current,
    clusters: joined('clusters'),
    users: joined('users'),
    contexts: joined('contexts'),
    'current-context': current['current-context'] ? current['current-context'] : name,
  };
  return { text: stringify(merged, { lineWidth: 0 }), context: name };
}

/**
 * The wanted name, or the first "name-2", "name-3" … that is free or belongs to the same cluster: one with the same CA, or with the same
 * server, because a rotation of the keys replaces the CA.
 */
function freeName(
  current: Kubeconfig,
  added: { readonly name: string; readonly access: KubeAccess },
): string {
  const ca = Buffer.from(added.access.caPem, 'utf8').toString('base64');
  for (let count = 1; ; count++) {
    const name = count === 1 ? added.name : `${added.name}-${count}`;
    const taken = (['clusters', 'users', 'contexts'] as const).some((key) =>
      current[key]?.some((each) => each.name === name || each.name === `${name}-admin`),
    );
    const cluster = current.clusters?.find((each) => each.name === name)?.['cluster'];
    const found = (cluster ?? {}) as Record<string, unknown>;
    const ours = found['certificate-authority-data'] === ca || found['server'] === added.access.server;
    if (!taken || ours) return name;
  }
}

function parseKubeconfig(text: string, path: string): Kubeconfig {
  const parsed = schema.safeParse(parseYaml(text, path) ?? {});
  if (parsed.success) return parsed.data;
  throw invalid(path, 'clusters, users or contexts are not lists of named entries');
}

function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text, { maxAliasCount: 50 });
  } catch {
    throw invalid(path, 'not valid YAML'); // the parser's own message would quote keys
  }
}

function invalid(path: string, why: string): KubeError {
  return new KubeError('kube-config-invalid', `reading kubeconfig ${path}: ${why}`);
}
