import { z } from 'zod';
import { parseRegistryLogins, REGISTRY_CREDENTIALS } from '../../internal/config/index.ts';
import { splitEndpoint } from '../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { getHttps, KUBELET_FILES } from '../kubernetes/index.ts';
import { NodeRegistriesError } from './errors.ts';
import type { RegistryCredentials } from './registry-files.ts';

const MAX_SECRET_CHARS = 1024 * 1024;
const TIMEOUT_MS = 10_000;
const PATH = `/api/v1/namespaces/${REGISTRY_CREDENTIALS.namespace}/secrets/${REGISTRY_CREDENTIALS.name}`;

const secretShape = z.object({ data: z.object({ [REGISTRY_CREDENTIALS.key]: z.base64() }) });

/**
 * Reads the user names and passwords from their Secret, as this node's kubelet: a Role lets nodes read this one Secret, and
 * Kubernetes encrypts it in etcd.
 * @param endpoint "host:port" of an API server
 * @returns an empty map while there is no such Secret
 * @throws NodeRegistriesError `noderegistries-credentials`
 */
export async function readRegistryCredentials(
  files: FilePort,
  endpoint: string,
  signal: AbortSignal,
): Promise<RegistryCredentials> {
  const [ca, cert, key] = await Promise.all(
    [KUBELET_FILES.ca, KUBELET_FILES.clientCert, KUBELET_FILES.clientKey].map((path) =>
      readText(files, path),
    ),
  );
  if (ca === undefined || cert === undefined || key === undefined)
    throw unreadable('this node has no credentials for Kubernetes yet');
  const target = { ...splitEndpoint(endpoint), path: PATH, ca, cert, key, signal, timeout: TIMEOUT_MS };
  const { status, body } = await getHttps(target, MAX_SECRET_CHARS).catch((cause: unknown) => {
    signal.throwIfAborted();
    throw unreadable(`GET ${endpoint}${PATH}`, cause);
  });
  if (status === 404) return new Map();
  // The body of a refusal contains no secret, but the error does not need it.
  if (status !== 200) throw unreadable(`GET ${endpoint}${PATH}: ${status}`);
  return loginsOf(body);
}

/** @param body an API object from an API server; its data comes from an operator's file */
function loginsOf(body: string): RegistryCredentials {
  try {
    const { data } = secretShape.parse(JSON.parse(body));
    return parseRegistryLogins(Buffer.from(data[REGISTRY_CREDENTIALS.key] ?? '', 'base64').toString('utf8'));
  } catch {
    // The cause could quote a password.
    throw unreadable('the Secret has another form than `cluster config apply` gives it');
  }
}

function unreadable(why: string, cause?: unknown): NodeRegistriesError {
  const message = `reading Secret ${REGISTRY_CREDENTIALS.namespace}/${REGISTRY_CREDENTIALS.name}: ${why}`;
  return new NodeRegistriesError('noderegistries-credentials', message, { cause });
}
