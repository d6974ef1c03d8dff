import { dirname } from 'node:path';
import type { FilePort } from '../../../internal/file/index.ts';
import { KUBERNETES_GROUPS, type RecordedPerson } from '../../../internal/role/index.ts';
import { PATHS, type EtcdClientFiles } from '../settings.ts';

const DIRECTORY = dirname(PATHS.authorization);
const KUBECONFIG = `${DIRECTORY}/membership.json`;
/** The configuration without a list of people. It can replace the other file on a full disk, because a rename needs no space. */
const WITHOUT_PERSONS = `${DIRECTORY}/without-persons.json`;
/**
 * How long an API server caches a webhook decision. A removed kubelet or operator is refused after this time at the
 * latest.
 */
const CACHE_TTL = '5s';
const TIMEOUT = '3s';
const MAX_BYTES = 1024 * 1024;
const PERSON_GROUPS = listOf(Object.values(KUBERNETES_GROUPS));
const NODES_GROUP = 'system:nodes';
/** The groups whose members have access only while the webhook finds a record of them. */
const GROUPS = [NODES_GROUP, KUBERNETES_GROUPS.operator, KUBERNETES_GROUPS.viewer];
/** CEL expression: the API server sends only the requests of kubelets, operators and viewers to the webhook. */
const IS_MEMBER = [
  "request.user.startsWith('system:node:')",
  `(has(request.groups) && request.groups.exists(group, group in ${listOf(GROUPS)}))`,
].join(' || ');
/**
 * CEL expression that matches the certificates of owners. Their UID is the hash of the owner's key; other
 * administrators have no such UID.
 */
const IS_OWNER = [
  "has(request.uid) && request.uid.startsWith('sha256:')",
  `has(request.groups) && '${KUBERNETES_GROUPS.owner}' in request.groups`,
].join(' && ');

/** The longest list of people in an expression. The API server asks about all others. */
const MAX_PERSONS = 100;

/** The values in the authorization configuration. */
export interface AuthorizationOptions {
  /** Id of this node. The certificate of its join service contains this id. */
  readonly nodeId: string;
  readonly clusterCaPem: string;
  /** Loopback port of the webhook. */
  readonly port: number;
  /**
   * Client certificate of the API server. It is the same certificate that the API server presents to etcd.
   */
  readonly client: Pick<EtcdClientFiles, 'certFile' | 'keyFile'>;
  /**
   * The people whose requests the webhook does not deny now. The API server does not ask about them, because a call takes 2 ms, a fifth
   * of the time of a request about a named object.
   */
  readonly persons: readonly RecordedPerson[];
}

/**
 * Writes the authorization configuration, unless the file is the same already: the membership webhook of the join service, then the
 * authorizers of Kubernetes. The API server reads a changed file at once. If the webhook does not answer, the API server
 * denies kubelets and operators. Otherwise a removed kubelet or operator could regain access by overloading the join service. Owners are
 * not denied then, because an owner must be able to repair a cluster in which no join service responds.
 * If a write fails, the configuration has no list of people afterwards: nobody stays in it because the disk is full.
 */
export async function writeAuthorizationConfig(
  files: FilePort,
  options: AuthorizationOptions,
): Promise<void> {
  await files.makeDirectory(DIRECTORY);
  const { persons } = options;
  try {
    await writeChanged(files, KUBECONFIG, text(membershipKubeconfig(options)));
    if (persons.length > 0) await writeChanged(files, WITHOUT_PERSONS, text(authorizationConfiguration([])));
    await writeChanged(files, PATHS.authorization, text(authorizationConfiguration(persons)));
  } catch (error) {
    // It does not exist while the configuration has no list.
    await files.rename(WITHOUT_PERSONS, PATHS.authorization).catch(() => undefined);
    throw error;
  }
}

async function writeChanged(files: FilePort, path: string, content: string): Promise<void> {
  const existing = await files.read(path, MAX_BYTES).catch(() => undefined);
  if (existing === undefined || !Buffer.from(content, 'utf8').equals(existing))
    await files.writeAtomic(path, content);
}

/** Builds an AuthorizationConfiguration (apiserver.config.k8s.io/v1). */
function authorizationConfiguration(persons: readonly RecordedPerson[]): object {
  const listed = persons.slice(0, MAX_PERSONS);
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthorizationConfiguration',
    authorizers: [
      webhook('membership', {
        failurePolicy: 'Deny',
        expression: unlessListed(IS_MEMBER, isListedOperator(listed)),
      }),
      webhook('owners', {
        failurePolicy: 'NoOpinion',
        expression: unlessListed(IS_OWNER, isListedOwner(listed)),
      }),
      { type: 'Node', name: 'node' },
      { type: 'RBAC', name: 'rbac' },
    ],
  };
}

/**
 * CEL expression that matches the operators and viewers of the list. A request in which anything differs from the record is not matched: the
 * name, the role, a second group of people, or the claim to be a node too.
 */
function isListedOperator(persons: readonly RecordedPerson[]): string | undefined {
  const others = persons.filter(({ group }) => group !== KUBERNETES_GROUPS.owner);
  if (others.length === 0) return undefined;
  const listed = listOf(others.map(({ uid, user, group }) => `${uid} ${user} ${group}`));
  return [
    'has(request.uid) && has(request.groups)',
    `!('${NODES_GROUP}' in request.groups)`,
    `request.groups.exists_one(group, group in ${PERSON_GROUPS})`,
    `request.groups.exists(group, (request.uid + ' ' + request.user + ' ' + group) in ${listed})`,
  ].join(' && ');
}

/** CEL expression that matches the owners of the list. The first certificate of an owner has the name "owner", whatever the record says. */
function isListedOwner(persons: readonly RecordedPerson[]): string | undefined {
  const owners = persons.filter(({ group }) => group === KUBERNETES_GROUPS.owner).map(({ uid }) => uid);
  return owners.length === 0 ? undefined : `request.uid in ${listOf(owners)}`;
}

function unlessListed(expression: string, isListed: string | undefined): string {
  return isListed === undefined ? expression : `(${expression}) && !(${isListed})`;
}

/** A CEL list of strings without quotes. */
function listOf(values: readonly string[]): string {
  return `['${values.join("', '")}']`;
}

function webhook(
  name: string,
  {
    failurePolicy,
    expression,
  }: { readonly failurePolicy: 'Deny' | 'NoOpinion'; readonly expression: string },
): object {
  return {
    ...{ type: 'Webhook', name },
    webhook: {
      ...{ authorizedTTL: CACHE_TTL, unauthorizedTTL: CACHE_TTL, timeout: TIMEOUT },
      subjectAccessReviewVersion: 'v1',
      matchConditionSubjectAccessReviewVersion: 'v1',
      failurePolicy,
      connectionInfo: { type: 'KubeConfigFile', kubeConfigFile: KUBECONFIG },
      matchConditions: [{ expression }],
    },
  };
}

/**
 * Builds the kubeconfig for the webhook. Its server is the join service of this node, whose certificate
 * contains the node id.
 */
function membershipKubeconfig({ nodeId, clusterCaPem, port, client }: AuthorizationOptions): object {
  const name = 'membership';
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: {
          server: `https://127.0.0.1:${port}/authorize`,
          'tls-server-name': nodeId,
          'certificate-authority-data': Buffer.from(clusterCaPem, 'utf8').toString('base64'),
        },
      },
    ],
    users: [{ name, user: { 'client-certificate': client.certFile, 'client-key': client.keyFile } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  };
}

function text(document: object): string {
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
