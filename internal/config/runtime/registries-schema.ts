import { z } from 'zod';
import { addProblem } from '../errors.ts';
import { caPem } from './ca-pem.ts';

const MAX_REGISTRIES = 64;
const MAX_MIRRORS = 8;
const MAX_URL_CHARS = 512;

/** A registry as the names of images have it. It also becomes the name of a directory, so it has no slash. */
const REGISTRY_NAME =
  /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*(:[0-9]{1,5})?$/;
/** Without user, query and fragment. Only characters that need no quoting in the configuration of containerd. */
const MIRROR_URL =
  /^https?:\/\/([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*|\[[0-9a-f:]+\])(:[0-9]{1,5})?(\/[A-Za-z0-9._~-]+)*\/?$/;
/** The text of the problem with a URL that does not match. */
const MIRROR_URL_PROBLEM =
  'a URL in lower case without user and query, like “https://mirror.example.org/hub”';
/**
 * Other names of Docker Hub, from which images without a registry in their name come. containerd calls it docker.io.
 */
const DOCKER_HUB_ALIASES = ['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com'];

const ca = caPem
  .optional()
  .describe(
    'CA certificates (PEM) that sign the certificate of the server, in addition to the CA certificates of the machine.',
  );

const credentials = z
  .boolean()
  .default(false)
  .describe(
    'Whether nodes log in. The user name and password are in registry-credentials.json of the workspace, never in this file.',
  );

const mirror = z
  .strictObject({
    url: z
      .string()
      .max(MAX_URL_CHARS)
      .refine((url) => MIRROR_URL.test(url) && URL.canParse(url), MIRROR_URL_PROBLEM)
      .describe('Address of the mirror. With http:// anyone on the way can change images.'),
    ca,
    credentials,
  })
  .superRefine((one, context) => {
    if (!one.url.startsWith('http://')) return;
    if (one.ca !== undefined) addProblem(context, ['ca'], 'left out: an http:// mirror shows no certificate');
    if (one.credentials)
      addProblem(context, ['credentials'], 'false: over http:// anyone on the way could read the password');
  });

const registry = z
  .strictObject({
    name: z
      .string()
      .max(253)
      .regex(
        REGISTRY_NAME,
        'a registry as in the names of images, like “docker.io” or “registry.example.org:5000”',
      )
      .refine((name) => !DOCKER_HUB_ALIASES.includes(name), '“docker.io”, the name that images have')
      .describe('The registry as in the names of images; docker.io for names without a registry.'),
    mirrors: z
      .array(mirror)
      .max(MAX_MIRRORS)
      .default([])
      .describe('Mirrors, which nodes ask in this order before the registry itself.'),
    fallback: z
      .boolean()
      .default(true)
      .describe('Whether nodes ask the registry itself when no mirror has the image.'),
    ca,
    credentials,
  })
  .superRefine((one, context) => {
    if (one.fallback) return;
    if (one.mirrors.length === 0)
      addProblem(context, ['fallback'], 'true, because without mirrors no image could be pulled');
    const unused = 'left out with `fallback: false`: nodes never ask the registry itself';
    if (one.ca !== undefined) addProblem(context, ['ca'], unused);
    if (one.credentials) addProblem(context, ['credentials'], unused);
  });

/** `registries:` of `cluster.yaml`: from where and how nodes pull images. May change while the cluster runs. */
export const registriesSchema = z
  .array(registry)
  .max(MAX_REGISTRIES)
  .default([])
  .superRefine((all, context) => {
    const names = all.map(({ name }) => name);
    names.forEach((name, index) => {
      if (names.indexOf(name) !== index)
        addProblem(context, [index, 'name'], `unique: there is already a registry ${name}`);
    });
    all.forEach(({ mirrors }, index) => {
      const urls = mirrors.map(({ url }) => url);
      urls.forEach((url, at) => {
        if (urls.indexOf(url) !== at)
          addProblem(
            context,
            [index, 'mirrors', at, 'url'],
            'another URL: an earlier mirror has the same URL',
          );
      });
    });
  })
  .describe(
    'Registries with mirrors, a private CA or credentials. All other registries are used with the defaults of containerd.',
  );

/** The parsed section. */
export type RegistriesConfig = z.output<typeof registriesSchema>;
/** One registry of the section. */
export type RegistryConfig = RegistriesConfig[number];

/** The server that has the images of a registry, "host" or "host:port". */
export function serverOfRegistry(name: string): string {
  return name === 'docker.io' ? 'registry-1.docker.io' : name;
}

/** The servers ("host" or "host:port") that nodes log in to, without duplicates. */
export function serversWithCredentials(registries: RegistriesConfig): readonly string[] {
  const servers = registries.flatMap(({ name, credentials: own, mirrors }) => [
    ...mirrors.filter((each) => each.credentials).map(({ url }) => serverOfMirror(url)),
    ...(own ? [serverOfRegistry(name)] : []),
  ]);
  return [...new Set(servers)];
}

/** "host" or "host:port" of the URL of a mirror. */
export function serverOfMirror(url: string): string {
  return new URL(url).host;
}
