"""Conversations in Spanish."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Lucía García | José Núñez | Sevilla | Aceites García SL | +34 955 012 345
    Carmen Ortega | Pablo Iglesias Ruiz | Valladolid | Ortega Asesores SL | +34 983 045 678
    Inés Peña | Álvaro Castillo | Bilbao | Astilleros del Norte SA | +34 944 078 901
    Rosario Jiménez | Manuel Domínguez | Granada | Clínica Alhambra SA | +34 958 023 456
    Fernando Echeverría | Beatriz Molina | Zaragoza | Ebro Transportes SL | +34 976 056 789
    Guadalupe Hernández | Rodrigo Salazar | Monterrey | Aceros Salazar SA | +52 81 5550 1234
    Marisol Quispe | Ernesto Villanueva | Arequipa | Textiles Quispe SA | +51 54 555 432
    Joaquín Herrero | Nuria Campos | Murcia | Huerta Viva SL | +34 968 034 567
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Escribes cartas para $b, de la empresa $org. Firma cada una con $b."),
            user("Soy $a, de $city. Dile a $b1 que el jueves no puedo ir. Mi número es $phone."),
            assistant("Hola, $b:\n\n$a, de $city, no puede ir el jueves. Puede llamar a $a1 al $phone."),
            user("Gracias. Más corto, y menciona que $a pagó en la cuenta $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Usa las herramientas. Pregunta $a."),
            user("¿Cuándo estuvo $b por última vez en $city, y cuál es el correo de $b1?"),
            call('{"name": "$b", "filtro": {"ciudad": "$city", "desde": 2021}, "pide": ["$a"]}'),
            result('{"filas": [{"cliente": "$b", "mail": "$bmail", "nota": "Se fue a $city\\n$a llamó.\\tPagado."}]}'),
            assistant("$b estuvo en $city en marzo. La dirección es $bmail."),
            user("Envía un aviso a $b1, con copia a $mail."),
        ),
        (
            Tool(
                "buscar_cliente", "Busca un cliente, por ejemplo $b de $city.", {"name": "Como $b", "ciudad": "Ciudad"}
            ),
        ),
        {"user": "$mail", "metadata": {"caso": "Queja de $a", "gestor": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Responde con tablas. Estos son los clientes:\n\nnombre;ciudad\n$a;$city\n$b;$city"),
            user(
                "| Nombre | Ciudad | Teléfono |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | no |\n\n"
                "¿Quién no tiene teléfono?"
            ),
            assistant("| Nombre | Motivo |\n|---|---|\n| $b | $b2 no dio su número a $a1 |"),
            user('nombre,mail,empresa\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\n¿Quién trabaja en $org, $A o $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Revisas programas. No cambies los nombres."),
            user(
                '```python\n# escrito por $a\nJEFE = "$b"\n\ndef saludar(nombre="$a1"):\n    '
                'return f"Hola {nombre} de $city"\n```\nMuestra {"nombre": "$a", "ruta": "/srv/$aslug"}. ¿Por qué?'
            ),
            assistant("`JEFE` es `$b`, y el valor de `saludar` es `$a1`. Pregunte a $a."),
            user(
                "El registro dice: 2026-03-04 10:22:11 WARN falló el acceso de $a ($mail) desde $city\\n$b ayudó.\n"
                "¿Fue $b?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "De: $a <$mail>\nPara: $b <$bmail>\nAsunto: Reunión en $city\n\nHola, $b1:\n\n"
                "¿podemos vernos en $city? Mi teléfono es $phone.\n\nSaludos,\n$a1\n\n"
                "> El lunes, $b escribió:\n> Estimada familia $a2, "
                "tenemos su tarjeta $card."
            ),
            assistant("$a quiere ver a $b en $city, y $b2 tiene la tarjeta $card."),
            user(
                "Lo mismo en HTML: <p>Hola, <b>$b</b>:</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Resúmelo para $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("La persona que escribe es $a, de $city, y trabaja en $org."),
            user('{"perfil": {"nombre": "$a", "alias": ["$a1", "$A"], "pareja": "$b"}, "lineas": "Vive\\n$a\\n$city"}'),
            assistant('{"resumen": "$a y $b viven en $city."}'),
            user("¿$A ($alow) es la misma persona que $a? ¿Y la cuenta $iban es de $b o de $a1?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"caso": "de $b"}},
    ),
)
