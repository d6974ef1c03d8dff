// A real OpenID Connect issuer (oidc-provider) with TLS, in a process of its own. Its configuration is one JSON line on stdin:
// { host, port, certPem, keyPem, signingKey (private JWK), clients: { CLIENT_ID: { audience, claims } } }.
// Says "listening", and ends when its stdin ends. A client gets a JWT with its claims for `client_credentials`.
import { createServer } from 'node:https';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const SECRET = 'secret-of-the-story';

const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => start(JSON.parse(line)));
lines.once('close', () => process.exit(0));

function start({ host, port, certPem, keyPem, signingKey, clients }) {
  const provider = new Provider(`https://${host}:${port}`, {
    clients: Object.keys(clients).map((id) => ({
      client_id: id,
      client_secret: SECRET,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      id_token_signed_response_alg: 'ES256',
    })),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:story',
        getResourceServerInfo: (_context, _resource, { clientId }) => ({
          scope: '',
          audience: clients[clientId].audience,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    extraTokenClaims: (_context, { clientId }) => clients[clientId].claims,
    jwks: { keys: [signingKey] },
    cookies: { keys: ['story'] },
  });
  createServer({ cert: certPem, key: keyPem }, provider.callback()).listen(port, host, () =>
    console.log('listening'),
  );
}
