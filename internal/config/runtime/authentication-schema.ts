import { z } from 'zod';
import { addProblem } from '../errors.ts';
import { KUBERNETES_GROUPS } from '../../role/index.ts';
import { caPem } from './ca-pem.ts';

const MAX_ISSUERS = 16;
const MAX_URL_CHARS = 512;
/** Without user, query and fragment, as the API server requires. Only characters that every URL parser reads in the same way. */
const ISSUER_URL =
  /^https:\/\/[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(\/[A-Za-z0-9._~:@!$&'()*+,;=%-]*)*$/;
/** The API server signs tokens of pods as this issuer. */
const OWN_ISSUER = /^https:\/\/kubernetes\.default\.svc(\.|$)/;
/** A prefix ends with a separator, so that prefix and claim cannot together form a reserved name. */
const PREFIX = /^([A-Za-z0-9][A-Za-z0-9._:/#-]*[:/#])?$/;

/**
 * Beginnings of names that only certificates of this cluster and its pods have: those of Kubernetes, and those of the groups of
 * administrators.
 */
export const RESERVED_PREFIXES: readonly string[] = [
  ...new Set(['system:', ...Object.values(KUBERNETES_GROUPS).map((group) => group.replace(/:.*/, ':'))]),
];

const prefix = z
  .string()
  .max(64)
  .regex(PREFIX, 'letters and digits with “:”, “/” or “#” at the end, like “oidc:”; or empty')
  .refine((text) => !RESERVED_PREFIXES.some((reserved) => text.startsWith(reserved)), {
    message: `another prefix than ${RESERVED_PREFIXES.join(', ')}, which this cluster's own users have`,
  });
const claim = z.string().min(1).max(256);
const url = z
  .string()
  .max(MAX_URL_CHARS)
  .regex(ISSUER_URL, 'an https:// URL without user, query and fragment');

const issuer = z
  .strictObject({
    url: url
      .refine(
        (text) => !OWN_ISSUER.test(text),
        'another URL: this one is the API server itself, for tokens of pods',
      )
      .describe('The issuer as in the claim `iss` of tokens, character by character.'),
    discoveryUrl: url
      .optional()
      .describe(
        'Where API servers read the OpenID configuration; default: `url` with /.well-known/openid-configuration.',
      ),
    ca: caPem
      .optional()
      .describe('CA certificates (PEM) of the issuer; default: the CA certificates of the machine.'),
    audiences: z
      .array(z.string().min(1).max(256))
      .min(1)
      .max(16)
      .superRefine((all, context) => refuseRepeated(all, context, (at) => [at]))
      .describe('Client IDs: a token is accepted if its claim `aud` contains one of these IDs.'),
    usernameClaim: claim.default('sub').describe('The claim with the name of the user.'),
    usernamePrefix: prefix.default('oidc:').describe('Prefix of user names.'),
    groupsClaim: claim.optional().describe('The claim with the groups of the user; default: no groups.'),
    groupsPrefix: prefix.default('oidc:').describe('Prefix of groups.'),
    requiredClaims: z
      .record(claim, z.string().max(256))
      .default({})
      .describe('Claims that a token must have, with their values.'),
  })
  .superRefine(({ url: at, discoveryUrl }, context) => {
    if (discoveryUrl !== undefined && trimmed(discoveryUrl) === trimmed(at))
      addProblem(context, ['discoveryUrl'], 'left out: it is the same as `url`');
  });

/** `authentication:` of `cluster.yaml`: who may log in besides holders of certificates. May change while the cluster runs. */
export const authenticationSchema = z
  .strictObject({
    issuers: z
      .array(issuer)
      .max(MAX_ISSUERS)
      .default([])
      .superRefine((all, context) => {
        refuseRepeated(
          all.map(({ url: at }) => at),
          context,
          (at) => [at, 'url'],
        );
        refuseRepeated(
          all.map(({ discoveryUrl }) => discoveryUrl),
          context,
          (at) => [at, 'discoveryUrl'],
        );
        refuseAmbiguous(
          all.map(({ usernamePrefix }) => usernamePrefix),
          context,
          'usernamePrefix',
        );
        refuseAmbiguous(
          all.map(({ groupsClaim, groupsPrefix }) => (groupsClaim === undefined ? undefined : groupsPrefix)),
          context,
          'groupsPrefix',
        );
      })
      .describe(
        'OpenID Connect issuers. Their users have only the permissions that RBAC gives to their prefixed names.',
      ),
  })
  .describe('Logins of Kubernetes users by OpenID Connect.');

/** The parsed section. */
export type AuthenticationConfig = z.output<typeof authenticationSchema>;
/** One issuer. */
export type IssuerConfig = AuthenticationConfig['issuers'][number];

function trimmed(text: string): string {
  return text.replace(/\/+$/, '');
}

function refuseRepeated(
  all: readonly (string | undefined)[],
  context: z.RefinementCtx,
  pathOf: (at: number) => (string | number)[],
): void {
  all.forEach((each, at) => {
    if (each !== undefined && all.indexOf(each) !== at)
      addProblem(context, pathOf(at), 'unique: an earlier entry is the same');
  });
}

/** If one prefix begins with another, the issuer of the shorter one can make names of the other issuer. */
function refuseAmbiguous(all: readonly (string | undefined)[], context: z.RefinementCtx, key: string): void {
  all.forEach((each, at) => {
    const other = all
      .slice(0, at)
      .find(
        (before) =>
          before !== undefined && each !== undefined && (each.startsWith(before) || before.startsWith(each)),
      );
    if (other !== undefined)
      addProblem(
        context,
        [at, key],
        `a prefix apart from “${other}” of another issuer, which could make the same names`,
      );
  });
}
