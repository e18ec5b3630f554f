const UNITS = 'enum(metric,imperial)'

export const main = {
    namespace: 'tidewatch',
    name: 'Harbour tides',
    description: 'Tide levels of harbours: find a harbour by name, then read its next high and low water. Use it for questions about tides, not about weather.',
    version: '4.0.0',
    docs: [ 'https://tidewatch.example/docs' ],
    termsOfService: 'https://tidewatch.example/terms',
    tags: [ 'tides', 'harbours' ],
    root: 'https://api.tidewatch.example',
    requiredServerParams: [ 'TIDEWATCH_API_KEY' ],
    headers: { 'X-Api-Key': '{{TIDEWATCH_API_KEY}}' },
    tools: {
        findHarbour: {
            method: 'GET',
            path: '/harbours',
            description: 'Find harbours whose name contains a text. Returns id, name and country of each.',
            parameters: [
                { position: { key: 'name', value: '{{USER_PARAM}}', location: 'query' }, z: { primitive: 'string()', options: [ 'min(2)' ], description: 'Part of the harbour name, at least two letters' } }
            ],
            meta: { isReadOnly: true, isConcurrencySafe: true, isDestructive: false, searchHint: 'harbour by name', aliases: [], alwaysLoad: false },
            tests: [ { _description: 'One letter case', name: 'Ham' }, { _description: 'Two words', name: 'Port of' }, { _description: 'Umlaut', name: 'Büs' } ],
            output: { mimeType: 'application/json', schema: { type: 'object', properties: { harbours: { type: 'array', items: { type: 'object' } } } } }
        },
        nextTides: {
            method: 'GET',
            path: '/harbours/{{harbourId}}/tides',
            description: 'The next high and low waters of one harbour, soonest first.',
            parameters: [
                { position: { key: 'harbourId', value: '{{USER_PARAM}}', location: 'insert' }, z: { primitive: 'string()', options: [], description: 'Harbour id as findHarbour returns it' } },
                { position: { key: 'units', value: '{{USER_PARAM}}', location: 'query' }, z: { primitive: UNITS, options: [ 'optional()' ], description: 'metric or imperial; metric if left out' } }
            ],
            meta: { isReadOnly: true, isConcurrencySafe: true, isDestructive: false, searchHint: 'high water, low water', aliases: [], alwaysLoad: false },
            tests: [ { _description: 'Known id', harbourId: 'ham' }, { _description: 'Imperial', harbourId: 'ham', units: 'imperial' }, { _description: 'Another', harbourId: 'rot' } ],
            output: { mimeType: 'application/json', schema: { type: 'object', properties: { tides: { type: 'array', items: { type: 'object' } } } } }
        }
    }
}

export const handlers = ( { libraries } ) => ( { nextTides: { postRequest: async ( { response } ) => ( { response } ) } } )
